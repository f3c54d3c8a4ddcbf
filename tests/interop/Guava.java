/* SPDX-License-Identifier: MIT */
import com.google.common.hash.BloomFilter;
import com.google.common.hash.Funnel;
import com.google.common.hash.Funnels;
import java.io.BufferedOutputStream;
import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import java.util.function.Function;

/**
 * Guava's BloomFilter on the command line.
 *
 * <pre>
 * Guava create FUNNEL STRATEGY N P K FILE   makes a filter, puts the keys, writes it
 * Guava add FUNNEL FILE                     reads a filter, puts the keys, writes it back
 * Guava ask FUNNEL FILE                     prints 1 or 0 for each key
 * Guava info FUNNEL FILE                    prints expectedFpp and approximateElementCount
 * Guava join FUNNEL FILE FILE               putAll of the second into the first
 * Guava time FUNNEL N P                     prints nanoseconds a key
 * </pre>
 *
 * FUNNEL is utf8, utf16, bytes, int or long; STRATEGY is 64 or 32. K 0 leaves k to Guava. Keys come
 * on standard input, one a line: decimal numbers for int and long, else bytes in hexadecimal (those
 * of the UTF-8 form for utf8 and utf16). `time` takes the lines as they are.
 */
public final class Guava {
    private static final int BATCH = 4096; // lines between two looks at the clock

    /** A funnel, and how a line becomes a key for it. */
    private record Kind<T>(Funnel<T> funnel, Function<String, T> key, Function<String, T> plain) {
        void keys(BloomFilter<T> filter, boolean ask) throws IOException {
            PrintStream out = new PrintStream(new BufferedOutputStream(System.out, 1 << 16));
            BufferedReader in = input();
            for (String line; (line = in.readLine()) != null; ) {
                T value = key.apply(line);
                if (ask) {
                    out.print(filter.mightContain(value) ? "1\n" : "0\n");
                } else {
                    filter.put(value);
                }
            }
            out.flush();
        }

        BloomFilter<T> read(String file) throws IOException {
            try (InputStream in = new FileInputStream(file)) {
                return BloomFilter.readFrom(in, funnel);
            }
        }

        /** With K, through readFrom: create() does not let its caller choose. */
        BloomFilter<T> create(String strategy, long n, double p, int k) throws Exception {
            if (k != 0) {
                double bits = (double) -n * Math.log(p) / (Math.log(2) * Math.log(2));
                int words = (int) Math.ceil((long) bits / 64.0);
                ByteBuffer empty = ByteBuffer.allocate(6 + 8 * words);
                empty.put((byte) (strategy.equals("64") ? 1 : 0)).put((byte) k).putInt(words);
                return BloomFilter.readFrom(new ByteArrayInputStream(empty.array()), funnel);
            }
            if (strategy.equals("64")) {
                return BloomFilter.create(funnel, n, p);
            }
            return create32(n, p);
        }

        /** MURMUR128_MITZ_32 is what create() made in old releases; this one keeps it private. */
        @SuppressWarnings("unchecked")
        private BloomFilter<T> create32(long n, double p) throws Exception {
            Class<?> type = Class.forName("com.google.common.hash.BloomFilter$Strategy");
            Class<?> all = Class.forName("com.google.common.hash.BloomFilterStrategies");
            Method create = BloomFilter.class.getDeclaredMethod("create", Funnel.class, long.class,
                    double.class, type);
            create.setAccessible(true);
            for (Object strategy : all.getEnumConstants()) {
                if (strategy.toString().equals("MURMUR128_MITZ_32")) {
                    return (BloomFilter<T>) create.invoke(null, funnel, n, p, strategy);
                }
            }
            throw new IllegalStateException("no MURMUR128_MITZ_32");
        }

        void time(long n, double p) throws IOException {
            BloomFilter<T> filter = BloomFilter.create(funnel, n, p);
            String[] lines = new String[BATCH];
            long reading = 0;
            long putting = 0;
            long asking = 0;
            long keys = 0;
            long found = 0;
            BufferedReader in = input();
            for (int count = BATCH; count == BATCH; ) {
                long start = System.nanoTime();
                count = 0;
                while (count < BATCH && (lines[count] = in.readLine()) != null) {
                    count++;
                }
                long read = System.nanoTime();
                for (int i = 0; i < count; i++) {
                    filter.put(plain.apply(lines[i]));
                }
                long put = System.nanoTime();
                for (int i = 0; i < count; i++) {
                    found += filter.mightContain(plain.apply(lines[i])) ? 1 : 0;
                }
                asking += System.nanoTime() - put;
                putting += put - read;
                reading += read - start;
                keys += count;
            }
            if (found != keys) {
                throw new IllegalStateException("a key is missing");
            }
            System.out.printf("read %d put %d ask %d ns a key%n", reading / Math.max(keys, 1),
                    putting / Math.max(keys, 1), asking / Math.max(keys, 1));
        }

        void run(String[] args) throws Exception {
            switch (args[0]) {
                case "create" -> {
                    BloomFilter<T> filter = create(args[2], Long.parseLong(args[3]),
                            Double.parseDouble(args[4]), Integer.parseInt(args[5]));
                    keys(filter, false);
                    write(filter, args[6]);
                }
                case "add" -> {
                    BloomFilter<T> filter = read(args[2]);
                    keys(filter, false);
                    write(filter, args[2]);
                }
                case "ask" -> keys(read(args[2]), true);
                case "info" -> {
                    BloomFilter<T> filter = read(args[2]);
                    System.out.println(filter.expectedFpp());
                    System.out.println(filter.approximateElementCount());
                }
                case "join" -> {
                    BloomFilter<T> filter = read(args[2]);
                    filter.putAll(read(args[3]));
                    write(filter, args[2]);
                }
                case "time" -> time(Long.parseLong(args[2]), Double.parseDouble(args[3]));
                default -> throw new IllegalArgumentException(args[0]);
            }
        }
    }

    private Guava() {}

    private static BufferedReader input() {
        return new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8), 1 << 16);
    }

    private static void write(BloomFilter<?> filter, String file) throws IOException {
        try (OutputStream out = new BufferedOutputStream(new FileOutputStream(file), 1 << 16)) {
            filter.writeTo(out);
        }
    }

    private static byte[] bytes(String hex) {
        return HexFormat.of().parseHex(hex);
    }

    private static String text(String hex) {
        return new String(bytes(hex), StandardCharsets.UTF_8);
    }

    public static void main(String[] args) throws Exception {
        Kind<?> kind = switch (args[1]) {
            case "utf8" -> new Kind<CharSequence>(Funnels.stringFunnel(StandardCharsets.UTF_8),
                    Guava::text, line -> line);
            case "utf16" -> new Kind<CharSequence>(Funnels.unencodedCharsFunnel(), Guava::text,
                    line -> line);
            case "bytes" -> new Kind<>(Funnels.byteArrayFunnel(), Guava::bytes,
                    line -> line.getBytes(StandardCharsets.UTF_8));
            case "int" -> new Kind<>(Funnels.integerFunnel(), Integer::valueOf, Integer::valueOf);
            case "long" -> new Kind<>(Funnels.longFunnel(), Long::valueOf, Long::valueOf);
            default -> throw new IllegalArgumentException(args[1]);
        };
        kind.run(args);
    }
}

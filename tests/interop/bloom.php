<?php
/*
 * The PHP class's filter: one string of 2^32 bits, a bit for each of a list of hash functions.
 * Written for this test; PHP's own arithmetic is what it is here for.
 *
 *     php bloom.php bits FUNCTION+FUNCTION...          prints the positions of the keys, ascending
 *     php bloom.php string FUNCTION+FUNCTION... FILE   sets the bits in a string, and writes it
 *     php bloom.php ask FUNCTION+FUNCTION... FILE      prints 1 or 0 for each key
 *
 * Keys come on standard input, one a line, in hexadecimal. FILE is a string as Redis would have it:
 * without the zero bytes behind the last one that was touched.
 */
error_reporting(E_ALL & ~E_DEPRECATED); // doubles become integers here, and that is meant
ini_set('memory_limit', '-1');

final class Hashes
{
    private const START = ['JSHash' => 1315423911, 'DJBHash' => 5381, 'FNVHash' => 2166136261];

    public static function position(string $function, string $key): int
    {
        $h = $function === 'DEKHash' ? strlen($key) : (self::START[$function] ?? 0);
        foreach (unpack('C*', $key) as $c) {
            $h = self::step($function, $h, $c);
        }
        if ($function === 'PJWHash') {
            $high = 0xffffffff << 28;
            $x = $h & $high;
            if ($x !== 0) {
                $h = ($h ^ ($x >> 24)) & ~$high;
            }
        }
        return ($h % 0xffffffff) & 0xffffffff;
    }

    private static function step(string $function, int|float $h, int $c): int|float
    {
        switch ($function) {
            case 'BKDRHash':
                return (int)($h * 131 + $c);
            case 'SDBMHash':
                return (int)($c + ($h << 6) + ($h << 16) - $h);
            case 'JSHash':
                return $h ^ (($h << 5) + $c + ($h >> 2));
            case 'DJBHash':
                return (int)(($h << 5) + $h) + $c;
            case 'DEKHash':
                return (($h << 5) ^ ($h >> 27)) ^ $c;
            case 'FNVHash':
                return ((int)($h * 16777619) % 4294967295) ^ $c;
            case 'PJWHash':
                return ($h << 4) + $c;
            case 'ELFHash':
                $h = ($h << 4) + $c;
                $x = $h & 0xf0000000;
                if ($x !== 0) {
                    $h ^= $x >> 24;
                }
                return $h & ~$x;
        }
        throw new InvalidArgumentException($function);
    }
}

/** What SETBIT and GETBIT do to a string. */
final class Bits
{
    private int $end = 0; // bytes up to the last one touched

    public function __construct(private string $bytes)
    {
    }

    public static function empty(): self
    {
        return new self(str_repeat("\0", 1 << 29));
    }

    public function set(int $at): void
    {
        $byte = $at >> 3;
        $this->bytes[$byte] = chr(ord($this->bytes[$byte]) | (0x80 >> ($at & 7)));
        $this->end = max($this->end, $byte + 1);
    }

    public function get(int $at): bool
    {
        $byte = $at >> 3;
        return $byte < strlen($this->bytes) && (ord($this->bytes[$byte]) & (0x80 >> ($at & 7))) !== 0;
    }

    public function write(string $file): void
    {
        $out = fopen($file, 'wb');
        for ($at = 0; $at < $this->end; $at += 1 << 20) {
            fwrite($out, substr($this->bytes, $at, min(1 << 20, $this->end - $at)));
        }
        fclose($out);
    }
}

[, $command, $list] = $argv;
$functions = explode('+', $list);
$seen = [];
$bits = match ($command) {
    'string' => Bits::empty(),
    'ask' => new Bits(file_get_contents($argv[3])),
    'bits' => null,
};
while (($line = fgets(STDIN)) !== false) {
    $key = hex2bin(rtrim($line, "\n"));
    $yes = true;
    foreach ($functions as $function) {
        $at = Hashes::position($function, $key);
        if ($command === 'string') {
            $bits->set($at);
        } elseif ($command === 'bits') {
            $seen[$at] = true;
        } elseif (!$bits->get($at)) {
            $yes = false;
            break;
        }
    }
    if ($command === 'ask') {
        echo $yes ? "1\n" : "0\n";
    }
}
if ($command === 'string') {
    $bits->write($argv[3]);
} elseif ($command === 'bits') {
    ksort($seen);
    foreach ($seen as $at => $_) {
        echo $at, "\n";
    }
}

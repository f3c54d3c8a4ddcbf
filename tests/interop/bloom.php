<?php
// SPDX-License-Identifier: MIT
/*
 * The PHP class's filter in a file: one string of 2^32 bits, a bit for each of a list of hash
 * functions.
 *
 *     php bloom.php bits FUNCTION+FUNCTION...          prints the positions of the keys, ascending
 *     php bloom.php string FUNCTION+FUNCTION... FILE   sets the bits in a string, and writes it
 *     php bloom.php ask FUNCTION+FUNCTION... FILE      prints 1 or 0 for each key
 *
 * Keys come on standard input, one a line, in hexadecimal. FILE is a string as Redis would have it:
 * without the zero bytes behind the last one that was touched.
 */
require __DIR__ . '/hashes.php';
ini_set('memory_limit', '-1');

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

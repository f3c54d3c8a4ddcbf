<?php
// SPDX-License-Identifier: MIT
/*
 * The PHP class on a real server, by the extension php-redis, as the articles on it have it: a MULTI
 * of SETBITs or GETBITs for each key.
 *
 *     php client.php add FUNCTION+FUNCTION... SOCKET KEY     adds the keys
 *     php client.php ask FUNCTION+FUNCTION... SOCKET KEY     prints 1 or 0 for each key
 *     php client.php dedup FUNCTION+FUNCTION... SOCKET KEY   adds the keys, prints those that were new
 *
 * Keys come on standard input, one a line, in hexadecimal, and are printed so.
 */
require __DIR__ . '/hashes.php';

final class Filter
{
    /** @param string[] $functions */
    public function __construct(private Redis $redis, private string $bucket, private array $functions)
    {
    }

    /** @return int[] the bits as they were */
    public function add(string $key): array
    {
        $pipe = $this->redis->multi();
        foreach ($this->functions as $function) {
            $pipe->setBit($this->bucket, Hashes::position($function, $key), true);
        }
        return $pipe->exec();
    }

    public function exists(string $key): bool
    {
        $pipe = $this->redis->multi();
        foreach ($this->functions as $function) {
            $pipe->getBit($this->bucket, Hashes::position($function, $key));
        }
        return !in_array(0, $pipe->exec(), true);
    }
}

[, $command, $list, $socket, $bucket] = $argv;
$redis = new Redis();
$redis->connect($socket);
$filter = new Filter($redis, $bucket, explode('+', $list));
while (($line = fgets(STDIN)) !== false) {
    $key = hex2bin(rtrim($line, "\n"));
    if ($command === 'ask') {
        echo $filter->exists($key) ? "1\n" : "0\n";
    } elseif (in_array(0, $filter->add($key), true) && $command === 'dedup') {
        echo $line;
    }
}

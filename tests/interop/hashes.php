<?php
// SPDX-License-Identifier: MIT
/*
 * The PHP class's hash functions. Written for this test; PHP's own arithmetic is what it is here for.
 */
error_reporting(E_ALL & ~E_DEPRECATED); // doubles become integers here, and that is meant

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

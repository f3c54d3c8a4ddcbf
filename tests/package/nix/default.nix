# SPDX-License-Identifier: MIT
# For Nix: see README.md beside this folder.
{ lib, stdenv, fetchurl, pkg-config, hiredis, libmd, libsodium, xxHash, zlib }:

stdenv.mkDerivation rec {
  pname = "seen";
  version = "1.0.0";

  src = fetchurl {
    url = "https://SITE/seen-${version}.tar.gz";
    sha256 = lib.fakeSha256;
  };

  nativeBuildInputs = [ pkg-config ];
  buildInputs = [ hiredis libmd libsodium xxHash zlib ];
  enableParallelBuilding = true;
  makeFlags = [ "PREFIX=$(out)" "WITH_BASHCOMP=yes" "WITH_ZSHCOMP=yes" "WITH_FISHCOMP=yes" ];

  meta = {
    description = "Print lines that were not seen before, and remember them";
    homepage = "https://SITE/";
    license = lib.licenses.mit;
    platforms = lib.platforms.linux;
    mainProgram = "seen";
  };
}

# SPDX-License-Identifier: MIT
# For Homebrew: see README.md beside this folder.
class Seen < Formula
  desc "Print lines that were not seen before, and remember them"
  homepage "https://SITE/"
  url "https://SITE/seen-1.0.0.tar.gz"
  sha256 "0" * 64
  license "MIT"

  depends_on "pkgconf" => :build
  depends_on "xxhash" => :build
  depends_on "hiredis"
  depends_on "libsodium"

  uses_from_macos "zlib"

  on_linux do
    depends_on "libmd"
  end

  def install
    system "make", "install", "PREFIX=#{prefix}", "BASHDIR=#{bash_completion}", "ZSHDIR=#{zsh_completion}",
           "FISHDIR=#{fish_completion}", "WITH_BASHCOMP=yes", "WITH_ZSHCOMP=yes", "WITH_FISHCOMP=yes"
  end

  test do
    (testpath/"lines").write "apple\npear\napple\n"
    assert_equal "apple\npear\n", shell_output("#{bin}/seen dedup --create f.seen lines")
    assert_equal "pear\n", shell_output("#{bin}/seen query f.seen -k pear -k plum")
    system bin/"seen", "verify", "f.seen"
  end
end

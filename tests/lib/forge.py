# SPDX-License-Identifier: MIT
"""Filter files as a forger makes them: any field or page is changed, and the checksums are right.

    forge.py FILE [field=VALUE | layer.N.field=VALUE | entry.N.field=VALUE | line.N.field=VALUE |
                   page.N.PAGE]...

The offsets are those of seen(5). VALUE is a Python expression; an entry is one of the directory
of a compact layer 0, a line of that of a counted one. page.N.PAGE renews the checksum of a page of
layer N.
"""
import struct
import sys

from reader import PAGE, u32, u64, xxh3

HEADER = {
    "version": (8, "I"), "length": (12, "I"), "compat": (16, "I"), "ro_compat": (20, "I"),
    "incompat": (24, "I"), "n_layers": (28, "I"), "epoch": (32, "Q"), "state": (40, "I"),
    "hash": (44, "I"), "seed": (48, "Q"), "id": (56, "Q"), "preparation": (72, "I"),
    "flags": (76, "I"), "capacity": (80, "Q"), "fpr": (88, "d"), "file_length": (96, "Q"),
    "made": (104, "Q"), "changed": (112, "Q"), "records": (120, "Q"), "added": (128, "Q"),
    "held": (136, "Q"), "period": (144, "Q"), "policy": (152, "I"), "unused": (156, "I"),
    "secret": (160, "Q"), "secret2": (168, "Q"), "proof": (176, "Q"), "reading": (192, "I"),
    "field0": (196, "I"), "field1": (200, "I"), "field14": (252, "I"),
}
LAYER = {
    "kind": (0, "I"), "generation": (4, "I"), "capacity": (8, "Q"), "fpr": (16, "d"),
    "length": (24, "Q"), "geometry0": (32, "Q"), "geometry1": (40, "Q"), "geometry2": (48, "Q"),
    "geometry3": (56, "Q"), "since": (64, "Q"), "keys_before": (72, "Q"), "closed_fpr": (80, "d"),
}
LAYERS, LAYER_LENGTH = 256, 88
ENTRY = {
    "offset": (0, "Q"), "segments0": (8, "I"), "segments1": (12, "I"), "segments2": (16, "I"),
    "listed": (20, "I"), "keys": (24, "I"), "seed": (28, "B"),
    "zeroes": (30, "H"),
}
LINE = {"line": (0, "Q"), "end": (0, "I"), "entries": (6, "H")}


class Forged:
    def __init__(self, data):
        self.data = bytearray(data)
        self.immutable = bool(u32(data, 24) & 1)
        self.slots = [0] if self.immutable else [0, PAGE]
        self.slot_length = u32(data, 12)

    def header(self, offset, form):
        return struct.unpack_from("<" + form, self.data, offset)[0]

    def layer(self, number, field, slot=0):
        offset, form = LAYER[field]
        return self.header(slot + LAYERS + LAYER_LENGTH * number + offset, form)

    def place(self, number, slot=0):
        """The offsets of a layer's data, checksums and touched bitmap."""
        step = 8 if self.immutable else PAGE
        end = self.slot_length if self.immutable else 3 * PAGE
        for before in range(number + 1):
            length = self.layer(before, "length", slot)
            pages = (length + PAGE - 1) // PAGE
            sums, touched, at = 4 * pages, (pages + 7) // 8, []
            for part in [length, sums] if self.immutable else [sums, touched, length]:
                at.append((end + step - 1) // step * step)
                end = at[-1] + part
        return (at[0], at[1], None) if self.immutable else (at[2], at[0], at[1])

    def set_header(self, offset, form, value):
        """Sets a field in all slots, which keep their epochs, and seals them."""
        for slot in self.slots:
            struct.pack_into("<" + form, self.data, slot + offset, value)
        self.seal_slots()

    def seal_slots(self):
        end = self.slot_length - 8
        for slot in self.slots:
            struct.pack_into("<Q", self.data, slot + end,
                             xxh3(bytes(self.data[slot:slot + end]), 0))

    def entry_at(self, number):
        return (self.place(0)[0] + self.layer(0, "length") -
                32 * self.layer(0, "geometry1") + 32 * number)

    def line_at(self, number):
        return self.place(0)[0] + 8 * number

    def set_data(self, at, form, value):
        """Sets a field in the data of layer 0, and renews the checksum of its page."""
        struct.pack_into("<" + form, self.data, at, value)
        self.seal_page(0, (at - self.place(0)[0]) // PAGE)

    def seal_page(self, layer, number):
        first, sums, _ = self.place(layer)
        at, end = first + number * PAGE, first + self.layer(layer, "length")
        base = xxh3(bytes(self.data[56:72]) + struct.pack("<Q", layer), 0)
        total = xxh3(bytes(self.data[at:min(at + PAGE, end)]), base + number & (1 << 64) - 1)
        struct.pack_into("<I", self.data, sums + 4 * number, total & (1 << 32) - 1)

    def set(self, name, value):
        part, *rest = name.split(".")
        if part == "layer":
            offset, form = LAYER[rest[1]]
            self.set_header(LAYERS + LAYER_LENGTH * int(rest[0]) + offset, form, value)
        elif part == "entry":
            offset, form = ENTRY[rest[1]]
            self.set_data(self.entry_at(int(rest[0])) + offset, form, value)
        elif part == "line":
            offset, form = LINE[rest[1]]
            self.set_data(self.line_at(int(rest[0])) + offset, form, value)
        else:
            offset, form = HEADER[part]
            self.set_header(offset, form, value)


def main(path, *changes):
    with open(path, "rb") as f:
        forged = Forged(f.read())
    for change in changes:
        if change.startswith("page."):
            _, layer, number = change.split(".")
            forged.seal_page(int(layer), int(number))
            continue
        name, value = change.split("=")
        forged.set(name, eval(value))
    with open(path, "wb") as f:
        f.write(forged.data)


if __name__ == "__main__":
    main(*sys.argv[1:])

"""What nvcc made of the kernels, of which their speed follows: memory that they spill to, the width
of their accesses, and how much they have asked for before they work on any.

usage: assembly.py FILE...    SOURCE.sm_NN.ptx and SOURCE.sm_NN.txt, what ptxas -v said of it

Prints a line for each kernel and architecture. Exit status 1 if one uses local memory, or one of
those below falls short.

To keep a memory of B bytes/s busy whose answers take T seconds, B * T bytes must be asked for at
any time (Little's law): of 3.35 TB/s and 0.6 us, an H100's, 15 KiB in each multiprocessor, and
twice that under load. The count is of those that a thread asks for in a row by its widest loads,
with no store and no jump between, times the threads that fit.
"""

import collections
import re
import subprocess
import sys

REGISTERS = 65536  # of a multiprocessor, as all that follow
THREADS_MAX = 2048
BLOCKS_MAX = 32
SHARED_BYTES = 160 << 10
WANTED_KIB = 30
PER_BLOCK = re.compile(r"\.maxntid (\d+)")

# Kernels that go over vectors, at the width that aligned ones get: pattern of the name -> whether
# loads have 128 bits, stores have, and enough loads are on their way. Codes are narrower; windows
# overlap, so that most loads are answered by a cache.
Wish = collections.namedtuple("Wish", "loads stores enough")
BOTH, READS, WRITES = Wish(True, True, True), Wish(True, False, True), Wish(False, True, False)
WIDE = r"<(float, 4u|BFloat16, 8u)"
WISHES = {
    r"SumKernel<\du, float4>": BOTH,
    r"CheckKernel<float4>": READS,
    r"OptimizeKernel<.*, float4>": BOTH,
    r"CompensateKernel<.*, float4>": BOTH,
    r"EncodeKernel<(Int8|Float16), .*0>": READS,
    r"EncodeKernel<(Int8|Float16), .*[12]>": BOTH,
    r"EncodeBFloat16Kernel<.*0, float4>": READS,
    r"EncodeBFloat16Kernel<.*[12], float4>": BOTH,
    r"CheckPayloadKernel": READS,
    r"DecodeKernel<.*, false, float4>": WRITES,
    r"DecodeKernel<(BFloat16|Float16), true, float4>": BOTH,
    r"DecodeKernel<(Int8|OneBit), true, float4>": WRITES,
    r"CountKernel<4u": READS,
    r"TallyKernel<4u": READS,
    r"DigitKernel<4u": READS,
    r"TallyLargestKernel<4u": READS,
    r"WriteLargestKernel<4u": Wish(True, False, False),  # bound by its votes
    "StatisticsKernel" + WIDE: READS,
    "NormaliseKernel" + WIDE: BOTH,
    "GradientSumsKernel" + WIDE + r", .*[02]>": READS,
    "GradientSumsKernel" + WIDE + r", .*1>": BOTH,
    "SourceGradientKernel" + WIDE: BOTH,
    "SumRowsKernel" + WIDE: READS,
    "AddBiasKernel" + WIDE: BOTH,
    r"^(Relu|ReluBackward|Add)Kernel<(float|BFloat16)>": BOTH,
    "CopyChannelsKernel" + WIDE: BOTH,
    "(Max|Average)Pool(Backward)?Kernel" + WIDE: Wish(True, True, False),
    r"ConvertKernel<float, float, 4u>": BOTH,
    r"ConvertKernel<float, BFloat16, 4u>": READS,
    r"ConvertKernel<BFloat16, float, 4u>": WRITES,
}

Kernel = collections.namedtuple("Kernel", "threads loads stores in_a_row local")


def bits_of(instruction):
    """Returns the width in bits: 128 for `ld.global.v4.f32`."""
    vector = re.search(r"\.v(\d)", instruction)
    return (int(vector[1]) if vector else 1) * int(re.search(r"(\d+)$", instruction)[1])


def kernels_of(ptx):
    """Mangled name -> Kernel, of the text of a .ptx file."""
    found = {}
    for body in re.split(r"^(?:\.visible )?\.entry ", ptx, flags=re.M)[1:]:
        name = re.match(r"\w+", body)[0]
        loads = stores = most = run = 0
        for line in body.splitlines():
            line = line.strip()
            access = re.match(r"(?:@%\w+ )?(ld|st)\.global[.\w]*", line)
            if access is None:
                if re.match(r"(@!?%\w+ )?bra|\$L", line):
                    run = 0
                continue
            bits = bits_of(access[0])
            if access[1] == "ld":
                if bits > loads:  # narrower ones are of what a thread reads once
                    most = run = 0
                    loads = bits
                run += bits // 8 if bits == loads else 0
                most = max(most, run)
            else:
                run = 0
                stores = max(stores, bits)
        found[name] = Kernel(int(PER_BLOCK.search(body)[1]), loads, stores, most,
                             ".local" in body)
    return found


def reports_of(text):
    """Mangled name -> (bytes of stack and spills, registers, bytes of shared memory)."""
    found = {}
    for part in re.split(r"Compiling entry function '", text)[1:]:
        stack = [int(number) for number in re.search(
            r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+)", part).groups()]
        shared = re.search(r"(\d+) bytes smem", part)
        found[part[:part.index("'")]] = (sum(stack), int(re.search(r"Used (\d+) reg", part)[1]),
                                         int(shared[1]) if shared else 0)
    return found


def short_names(names):
    """Without namespaces, parameters and what a template's kinds are cast from."""
    lines = subprocess.run(["c++filt"], input="\n".join(names), capture_output=True, text=True,
                           check=True).stdout.splitlines()
    lines = [re.sub(r"\w+::|\(anonymous namespace\)::|^void ", "", line) for line in lines]
    return {name: re.sub(r"(>)?\([^()]*(\([^()]*\))?[^()]*\)$", r"\1", re.sub(r"\(\w+\)", "", line))
            for name, line in zip(names, lines)}


def resident_threads(kernel, registers, shared):
    blocks = min(BLOCKS_MAX, THREADS_MAX // kernel.threads,
                 REGISTERS // ((registers + 7) // 8 * 8 * kernel.threads))
    if shared > 0:
        blocks = min(blocks, SHARED_BYTES // shared)
    return blocks * kernel.threads


def complaints_of(name, kernel, spilt, kib):
    if spilt > 0 or kernel.local:
        yield f"uses local memory, {spilt} bytes by ptxas"
    for pattern, wish in WISHES.items():
        if not re.search(pattern, name):
            continue
        if wish.loads and kernel.loads < 128:
            yield f"loads no 128 bits at once, but {kernel.loads}"
        if wish.stores and kernel.stores < 128:
            yield f"stores no 128 bits at once, but {kernel.stores}"
        if wish.enough and kib < WANTED_KIB:
            yield f"has {kib:.0f} KiB of loads on their way in a multiprocessor, not {WANTED_KIB}"


def main(paths):
    complaints, unmatched = [], set(WISHES)
    for path in sorted(path for path in paths if path.endswith(".ptx")):
        with open(path, encoding="utf-8") as ptx, open(path[:-3] + "txt", encoding="utf-8") as text:
            kernels, reports = kernels_of(ptx.read()), reports_of(text.read())
        architecture = path.rsplit(".", 2)[1]
        names = short_names(list(kernels))
        for mangled, kernel in kernels.items():
            spilt, registers, shared = reports[mangled]
            threads = resident_threads(kernel, registers, shared)
            kib = threads * kernel.in_a_row / 1024
            name = names[mangled]
            print(f"{architecture} {name:62} {registers:3} registers, {threads:4} threads, loads "
                  f"{kernel.loads:3} bits, stores {kernel.stores:3}, {kernel.in_a_row:3} bytes in "
                  f"a row, {kib:3.0f} KiB")
            unmatched -= {pattern for pattern in WISHES if re.search(pattern, name)}
            complaints += [f"{architecture} {name}: {what}"
                           for what in complaints_of(name, kernel, spilt, kib)]
    complaints += [f"no kernel is called {pattern}" for pattern in sorted(unmatched)]
    print("\n".join(complaints), file=sys.stderr)
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

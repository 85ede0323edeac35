#!/usr/bin/env bash
# The image for containers of what Bazel built: the same digest twice, small, with no shell, and
# with a root that is read-only it trains as another user than root, to the bits that the program
# gives here.
set -uo pipefail
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
# shellcheck source=tests/deploy/skipped.sh
source tests/deploy/skipped.sh
need_tool umoci umoci
work=$(mktemp -d "$TEST_TMPDIR/image-XXXXXX")
trap 'rm -rf "$work"' EXIT

export SOURCE_DATE_EPOCH=1700000000
deploy/image.sh "$work/second.tar" --built "$PWD" > "$work/second.log" 2>&1 &
second=$!
deploy/image.sh "$work/image.tar" --built "$PWD" > "$work/made" 2>&1
check "it is made" [ $? -eq 0 ]
wait "$second"
cat "$work/made"
digest=$(grep -o 'sha256:[0-9a-f]*' "$work/made")
check "a second one has the same digest" is_in "second.tar: $digest" "$work/second.log"
check "and the same bytes" cmp "$work/image.tar" "$work/second.tar"
sizes=$(sed -n 's/.*; unpacked \([0-9]*\) MB, compressed, as it is pulled, \([0-9]*\) MB$/\1 \2/p' \
  "$work/made")
check "it says how large it is" [ -n "$sizes" ]
words=$(deploy/image.sh "$work/none.tar" --built "$work" 2>&1)
check "a program that is not built is one line" \
  [ "$words" = "strata: error: $work/cli/strata: is not there" ]

mkdir "$work/layout"
tar -C "$work/layout" -xf "$work/image.tar"
umoci --log=error stat --image "$work/layout:strata" --json > "$work/stat"
check "it is an image of one layer" [ "$(grep -o '"layer":{' "$work/stat" | wc -l)" -eq 1 ]
# The size of the download (blobs reachable from the index), and on disk (the layer's files).
pulled=$(cat "$work"/layout/blobs/sha256/* | wc -c)
layer=$(grep -o '"layers":.*' "$work/layout/blobs/sha256/${digest#sha256:}" |
  grep -o 'sha256:[0-9a-f]*')
unpacked=$(gzip -dc "$work/layout/blobs/sha256/${layer#sha256:}" | wc -c)
echo "without CUDA: $pulled bytes are pulled, $unpacked unpacked"
check "at most 150 MB are pulled" [ "$pulled" -le 150000000 ]
near() { [ "$(($1 - $2 * 1000000))" -le 600000 ] && [ "$(($2 * 1000000 - $1))" -le 600000 ]; }
check "unpacked it has what it says" near "$unpacked" "${sizes% *}"
check "and compressed, too" near "$pulled" "${sizes#* }"
config=$(grep -l '"Entrypoint"' "$work"/layout/blobs/sha256/*)
for word in '"User":"65532:65532"' '"Entrypoint":["/usr/bin/strata"]' \
  '"org.opencontainers.image.licenses":"Apache-2.0"' '"org.opencontainers.image.revision":"' \
  '"created":"2023-11-14T22:13:20Z"' \
  "\"org.opencontainers.image.version\":\"$(cli/strata --version | cut -d' ' -f2)\""; do
  check "its config says $word" is_in "$word" "$config"
done

[ "$failures" -eq 0 ] || exit 1
need_namespaces
umoci --log=error unpack --image "$work/layout:strata" "$work/bundle"
check "it is unpacked" [ $? -eq 0 ]
root=$work/bundle/rootfs
check "nothing but the program is in its /usr/bin" [ "$(ls "$root/usr/bin")" = strata ]
check "nothing is set-user-id, or anybody's to write but /tmp" \
  [ "$(cd "$root" && find . ! -type l -perm /6002)" = ./tmp ]
check "its packages are named" grep -q '^Package: libdnnl2$' "$root/var/lib/dpkg/status.d/libdnnl2"
check "with their licences" [ -s "$root/usr/share/doc/libdnnl2/copyright" ]
check "the volume is the user's" [ "$(stat -c '%u:%g' "$root/var/lib/strata")" = 65532:65532 ]

mkdir -m 777 "$work/out"
job=tests/gpu/sync.textproto
# inside COMMAND: without a network, a shell or a way to write but /tmp.
inside() {
  timeout --signal=KILL 60 unshare --kill-child --fork --mount --pid --net --uts --ipc \
    bash tests/deploy/enter.sh --user 65532 --out "$work/out" "$root" "$@"
}
# The image has no data: a job on synthetic ones.
install -m 644 "$job" "$root/usr/share/doc/strata/examples/synthetic.textproto"
inside /usr/bin/strata --version > "$work/version" 2>&1
check "it starts" [ "$(cat "$work/version")" = "$(cli/strata --version)" ]
inside /usr/bin/strata local --nodes 2 --job /usr/share/doc/strata/examples/synthetic.textproto \
  --runs /var/lib/strata/runs > "$work/closed" 2>&1
check "its root cannot be written to" is_in "Read-only file system" "$work/closed"
inside /usr/bin/strata local --nodes 2 --runs /tmp/out/runs --set run_dir=run \
  --job /usr/share/doc/strata/examples/synthetic.textproto > "$work/trained" 2>&1
check "it trains" [ $? -eq 0 ]
tail -n 3 "$work/trained"
check "as another user than root" \
  [ "$(stat -c %u "$work/out/runs/run/model.safetensors")" = 65532 ]
cli/strata local --nodes 2 --job "$job" --runs "$work/runs" --set run_dir=run \
  > "$work/local" 2>&1
check "the same job runs here" [ $? -eq 0 ]
accuracy() { sed -n 's/.*finished after [^,]*, \(test accuracy .*\)/\1/p' "$work/$1"; }
check "it says the same accuracy" [ -n "$(accuracy local)" -a \
  "$(accuracy trained)" = "$(accuracy local)" ]
check "with the same bits in its weights" \
  cmp "$work/out/runs/run/model.safetensors" "$work/runs/run/model.safetensors"
check "no mount is left" [ "$(grep -c " $work" /proc/mounts)" -eq 0 ]
exit "$failures"

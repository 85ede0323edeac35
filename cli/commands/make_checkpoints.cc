// make_checkpoints DIR FIELDS STEP...: writes checkpoints of the job of made_checkpoints.h after
// those steps, for tests in other languages; FIELDS are fields of the job.
#include <cstdio>

#include "absl/strings/numbers.h"
#include "cli/commands/made_checkpoints.h"
#include "cli/options/terminal.h"
#include "common/checkpoint/file_store.h"

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  const auto store = strata::FileStore::Open(argv[1]);
  if (!store.ok()) return 2;
  const strata::proto::JobRecord record = strata::cli::MadeRecord(argv[2]);
  for (int i = 3; i < argc; ++i) {
    uint64_t step = 0;
    if (!absl::SimpleAtoi(argv[i], &step)) return 2;
    const auto images = strata::cli::MadeImages(record, step);
    const auto manifest = strata::cli::PutCheckpoint(**store, record, step, images);
    if (manifest.ok()) continue;
    strata::cli::PrintF(stderr, "%s\n", std::string(manifest.status().message()));
    return 1;
  }
  return 0;
}

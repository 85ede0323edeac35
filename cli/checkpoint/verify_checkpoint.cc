#include "cli/checkpoint/verify_checkpoint.h"

#include <algorithm>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/checkpoint/checkpoint_objects.h"
#include "cli/render/progress.h"
#include "common/checkpoint/checkpoints.h"
#include "common/counted.h"

namespace strata::cli {
namespace {

absl::Status Read(
    Store& store, const CheckpointEntry& entry,
    const std::function<void(const ObjectFacts& object, uint64_t bytes_before)>& on_object) {
  if (!entry.manifest) return absl::DataLossError(entry.why);
  const absl::StatusOr<proto::JobRecord> record = RecordOf(*entry.manifest, store.where());
  if (!record.ok()) return record.status();
  return ReadObjects(store, *entry.manifest, *record, {.on_object = on_object});
}

// A checkpoint's manifest is the first that is taken away of it.
bool HasManifest(const std::vector<std::string>& names, uint64_t clock) {
  const std::string manifest = Checkpoints::ObjectName(clock, "manifest.json");
  return std::find(names.begin(), names.end(), manifest) != names.end();
}

}  // namespace

absl::StatusOr<Verdict> VerifyCheckpoint(
    Store& store, const CheckpointEntry& entry,
    const std::function<void(const ObjectFacts& object, uint64_t bytes_before)>& on_object) {
  if (entry.state == CheckpointState::kIncomplete) {
    return Verdict{Verdict::kIncomplete, absl::StrCat("incomplete: ", entry.why)};
  }
  const absl::Status status = Read(store, entry, on_object);
  if (status.ok()) {
    return Verdict{Verdict::kWhole,
                   absl::StrFormat("whole: %s, %s", Counted(entry.objects, "object"),
                                   FormatBytes(static_cast<double>(BytesOf(*entry.manifest))))};
  }
  if (absl::IsUnavailable(status)) return status;
  const absl::StatusOr<std::vector<std::string>> names = store.List();
  if (!names.ok()) return names.status();
  if (!HasManifest(*names, entry.clock)) {
    return Verdict{Verdict::kRemoved, "removed while it was read"};
  }
  return Verdict{Verdict::kBroken, absl::StrCat("broken: ", status.message())};
}

}  // namespace strata::cli

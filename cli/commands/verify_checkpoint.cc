#include "cli/commands/verify_checkpoint.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/commands/checkpoint_objects.h"
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

}  // namespace

absl::StatusOr<Verdict> VerifyCheckpoint(
    Store& store, const CheckpointEntry& entry,
    const std::function<void(const ObjectFacts& object, uint64_t bytes_before)>& on_object) {
  if (entry.state == CheckpointState::kIncomplete) {
    return Verdict{VerdictKind::kIncomplete, absl::StrCat("incomplete: ", entry.why)};
  }
  const absl::Status status = Read(store, entry, on_object);
  if (status.ok()) {
    return Verdict{VerdictKind::kWhole,
                   absl::StrFormat("whole: %s, %s", Counted(entry.objects, "object"),
                                   FormatBytes(static_cast<double>(BytesOf(*entry.manifest))))};
  }
  if (absl::IsUnavailable(status)) return status;
  // The manifest is removed first when a checkpoint is deleted.
  const std::string manifest = Checkpoints::ObjectName(entry.clock, "manifest.json");
  if (absl::IsNotFound(store.GetAtMost(manifest, kManifestBytesMax).status())) {
    return Verdict{VerdictKind::kRemoved,
                   absl::StrCat("removed while it was read: ", status.message())};
  }
  return Verdict{VerdictKind::kBroken, absl::StrCat("broken: ", status.message())};
}

void VerdictCounts::Add(VerdictKind kind) {
  switch (kind) {
    case VerdictKind::kWhole:
      ++whole;
      break;
    case VerdictKind::kIncomplete:
      ++incomplete;
      break;
    case VerdictKind::kBroken:
      ++broken;
      break;
    case VerdictKind::kRemoved:
      ++removed;
      break;
  }
}

}  // namespace strata::cli

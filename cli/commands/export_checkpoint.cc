#include "cli/commands/export_checkpoint.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "cli/commands/checkpoint_list.h"
#include "cli/commands/checkpoint_objects.h"
#include "cli/commands/export_table.h"
#include "cli/commands/named_tensors.h"
#include "common/image/safetensors.h"

namespace strata::cli {
namespace {

namespace fs = std::filesystem;

// Finds errors of the output file before hours of reading.
absl::Status CheckOut(const std::string& out) {
  std::error_code error;
  if (out.empty() || fs::is_directory(out, error)) {
    return absl::InvalidArgumentError(absl::StrCat(out, ": a folder, not a file to write"));
  }
  const fs::path folder = fs::path(out).parent_path();
  if (folder.empty() || fs::is_directory(folder, error)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(out, ": no folder ", folder.string()));
}

std::map<std::string, std::string> Metadata(const Manifest& manifest, const proto::Job& job,
                                            const ExportOptions& options) {
  std::map<std::string, std::string> metadata = {
      {"format", "pt"}, {"job", manifest.job_name}, {"step", absl::StrCat(manifest.clock)}};
  if (job.has_model()) metadata["model"] = job.model().zoo();
  if (options.optimizer) metadata["optimizer"] = NamesOf(job.optimizer()).optimizer;
  return metadata;
}

// Writes one checkpoint. Errors: DataLoss: it is not whole; see ExportCheckpoint.
absl::StatusOr<Exported> ExportOne(Store& store, const Manifest& manifest,
                                   const ExportOptions& options) {
  const absl::StatusOr<proto::JobRecord> record = RecordOf(manifest, store.where());
  if (!record.ok()) return record.status();
  if (!options.table.empty()) return ExportTable(store, manifest, *record, options);
  // Before memory for them is asked for.
  if (record->layout().elements() > BytesOf(manifest) / sizeof(float)) {
    return absl::DataLossError(absl::StrCat(
        store.where(), ": step ", manifest.clock, ": its objects have ", BytesOf(manifest),
        " bytes, too few for the ", record->layout().elements(), " elements of the job"));
  }
  NamedTensors named(*record, options.optimizer);
  ObjectTaker taker = named.MakeTaker();
  if (options.on_object) {
    taker.on_object = [&](const ObjectFacts& object, uint64_t bytes_before) {
      options.on_object(manifest, object, bytes_before);
    };
  }
  absl::Status status = ReadObjects(store, manifest, *record, taker);
  if (!status.ok()) return status;
  const absl::StatusOr<std::vector<TensorToSave>> tensors = named.Tensors();
  if (!tensors.ok()) {
    return absl::Status(
        tensors.status().code(),
        absl::StrCat(store.where(), ": step ", manifest.clock, ": ", tensors.status().message()));
  }
  status = WriteSafetensors(options.out, Metadata(manifest, record->job(), options), *tensors);
  if (!status.ok()) return status;
  Exported exported = {.manifest = manifest, .tensors = tensors->size(), .notes = named.notes()};
  for (const TensorToSave& tensor : *tensors)
    exported.bytes += tensor.values.size() * sizeof(float);
  return exported;
}

}  // namespace

absl::StatusOr<Exported> ExportCheckpoint(Store& store, const ExportOptions& options) {
  if (absl::Status status = CheckOut(options.out); !status.ok()) return status;
  const absl::StatusOr<std::vector<CheckpointEntry>> entries = ListCheckpoints(store);
  if (!entries.ok()) return entries.status();
  std::vector<CheckpointEntry> candidates(entries->rbegin(), entries->rend());
  if (options.step) {
    absl::StatusOr<CheckpointEntry> entry = FindCheckpoint(*entries, *options.step, store.where());
    if (!entry.ok()) return entry.status();
    candidates = {*std::move(entry)};
  }
  for (const CheckpointEntry& entry : candidates) {
    absl::Status status;
    if (entry.state == CheckpointState::kComplete) {
      absl::StatusOr<Exported> exported = ExportOne(store, *entry.manifest, options);
      if (exported.ok() || !absl::IsDataLoss(exported.status())) return exported;
      status = exported.status();
    } else {
      status = absl::InvalidArgumentError(absl::StrCat(
          store.where(), ": step ", entry.clock, " is ", NameOf(entry.state), ": ", entry.why));
    }
    if (options.step) return status;
    if (options.on_passed_over) {
      options.on_passed_over(
          absl::StrCat("step ", entry.clock, " passed over: ", status.message()));
    }
  }
  return absl::InvalidArgumentError(absl::StrCat(store.where(), ": no whole checkpoint"));
}

}  // namespace strata::cli

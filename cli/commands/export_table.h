#ifndef STRATA_CLI_COMMANDS_EXPORT_TABLE_H_
#define STRATA_CLI_COMMANDS_EXPORT_TABLE_H_

#include "absl/status/statusor.h"
#include "cli/commands/export_checkpoint.h"
#include "common/checkpoint/manifest.h"
#include "common/checkpoint/store.h"
#include "proto/record.pb.h"

namespace strata::cli {

// Writes the rows of options.table as a safetensors file: "ids" [rows] (I64), in no order, and
// "weights" [rows, dim] (F32); with options.optimizer also "state" [rows, values of a row's state]
// (F32) and "clocks" [rows] (I32), the step of each row's last update, or, where pushes are applied
// as they come, that of the slowest node then. One object is in memory at a time, so that the table
// may be larger than that. Errors, after which nothing is written: InvalidArgument naming the
// table: the job has none of that name; DataLoss: the checkpoint is not whole; those of files and
// of the store.
absl::StatusOr<Exported> ExportTable(Store& store, const Manifest& manifest,
                                     const proto::JobRecord& record, const ExportOptions& options);

}  // namespace strata::cli

#endif  // STRATA_CLI_COMMANDS_EXPORT_TABLE_H_

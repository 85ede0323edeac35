#ifndef STRATA_COMMON_IMAGE_ROWS_IMAGE_H_
#define STRATA_COMMON_IMAGE_ROWS_IMAGE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/bytes.h"
#include "common/image/image_tensors.h"

namespace strata {

// Rows of a table, by column: all vectors are parallel.
struct TableRows {
  uint32_t table = 0;            // its index in the job's layout
  std::string name;              // for readers
  uint32_t columns = 0;          // weights of a row
  uint32_t state_columns = 0;    // fp32 values of its optimizer's state
  std::vector<uint64_t> ids;     // in any order, each once
  std::vector<uint32_t> clocks;  // of the last update of each
  std::vector<uint32_t> pushes;  // updates of each, up to 65535
  std::vector<float> weights;    // rows x columns
  std::vector<float> state;      // rows x state_columns
};

// A bucket whose rows include all pushes before a clock, and, if pushes are applied on arrival,
// possibly later ones.
struct BucketImage {
  uint32_t bucket = 0;
  uint64_t version = 0;           // updates of the bucket
  std::vector<uint64_t> applied;  // by node: its pushes in the rows, from clock 0 on
};

// Some rows of a checkpoint: all or a part of those in some of the job's buckets.
struct RowsImage {
  uint64_t clock = 0;
  uint32_t buckets = 0;  // of the job
  bool is_last = false;  // of the objects of one shard
  std::vector<BucketImage> parts;
  std::vector<TableRows> tables;  // those that have rows here, ascending
};

// A safetensors file of rows. Table T of the job's layout has the tensors "T/ids" (I64), "T/clocks"
// and "T/pushes" (I32), "T/weights" and, if its optimizer has state, "T/state" (F32). The metadata
// has "format", which is kRowsImageFormat, and "rows": JSON with the clock, the buckets, and the
// tables' names.
inline constexpr char kRowsImageFormat[] = "strata-rows-1";

// REQUIRES: names of tables are UTF-8, else they are not as they were.
ImageFile MakeRowsImageFile(RowsImage image);

// Parses a file's content. Errors: InvalidArgument naming `path` and what is wrong: not a
// safetensors file, another format, tensors that are missing, unknown, or of another shape or type,
// weights that are NaN or infinite, an id of 2^63 or more, buckets beyond the job's. State may be
// infinite: a sum of squares that has grown so large stops its row.
absl::StatusOr<RowsImage> ParseRowsImageFile(const Bytes& content, const std::string& path);

}  // namespace strata

#endif  // STRATA_COMMON_IMAGE_ROWS_IMAGE_H_

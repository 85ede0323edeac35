#ifndef STRATA_ROWS_TABLE_SPEC_H_
#define STRATA_ROWS_TABLE_SPEC_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rows/initial_values.h"
#include "rows/row_update.h"

namespace strata::proto {
class Layout;
class Table;
}  // namespace strata::proto

namespace strata::rows {

// An embedding table: rows of `columns` weights, by id.
struct TableSpec {
  std::string name;       // 1 to 256 bytes
  uint32_t columns = 0;   // 1 to 4096
  uint64_t capacity = 0;  // rows: 1 to 2^38
  uint64_t seed = 0;
  InitialValues initial;
  RowOptimizer optimizer;

  // Errors: InvalidArgument naming the table and the field.
  absl::Status Validate() const;
};

proto::Table ToProto(const TableSpec& spec);

// Returns the tables of a job's layout, valid and with names of their own. Errors: InvalidArgument
// naming the table and the field, or that there are too many.
absl::StatusOr<std::vector<TableSpec>> TablesOf(const proto::Layout& layout);

}  // namespace strata::rows

#endif  // STRATA_ROWS_TABLE_SPEC_H_

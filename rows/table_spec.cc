#include "rows/table_spec.h"

#include <cmath>
#include <cstddef>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "common/os/limits.h"
#include "proto/record.pb.h"

namespace strata::rows {
namespace {

constexpr uint32_t kColumnsMax = 4096;
// Blocks have numbers of 32 bits.
constexpr uint64_t kCapacityMax = uint64_t{1} << 38;
constexpr size_t kNameBytesMax = 256;

using Kind = InitialValues::Kind;

// The optimizers of the record have the same order.
static_assert(static_cast<int>(RowOptimizerKind::kFtrl) == proto::Table::FTRL);

proto::Table::Initial ToProto(Kind kind) {
  switch (kind) {
    case Kind::kConstant:
      return proto::Table::CONSTANT;
    case Kind::kUniform:
      return proto::Table::UNIFORM;
    case Kind::kNormal:
      break;
  }
  return proto::Table::NORMAL;
}

Kind FromProto(proto::Table::Initial initial) {
  switch (initial) {
    case proto::Table::CONSTANT:
      return Kind::kConstant;
    case proto::Table::UNIFORM:
      return Kind::kUniform;
    default:
      return Kind::kNormal;
  }
}

absl::StatusOr<TableSpec> FromProto(const proto::Table& table) {
  if (!proto::Table::Initial_IsValid(table.initial()) ||
      !proto::Table::Optimizer_IsValid(table.optimizer())) {
    return absl::InvalidArgumentError(
        absl::StrCat("table \"", table.name(), "\": its init or optimizer is of a newer version"));
  }
  TableSpec spec = {.name = table.name(),
                    .columns = table.columns(),
                    .capacity = table.capacity(),
                    .seed = table.seed(),
                    .initial = {.kind = FromProto(table.initial()), .scale = table.initial_scale()},
                    .optimizer = {.kind = static_cast<RowOptimizerKind>(table.optimizer()),
                                  .weight_decay = table.weight_decay(),
                                  .epsilon = table.epsilon(),
                                  .initial_accumulator = table.initial_accumulator(),
                                  .beta1 = table.beta1(),
                                  .beta2 = table.beta2(),
                                  .l1 = table.l1(),
                                  .l2 = table.l2(),
                                  .beta = table.beta()}};
  if (absl::Status valid = spec.Validate(); !valid.ok()) return valid;
  return spec;
}

}  // namespace

absl::Status TableSpec::Validate() const {
  const auto wrong = [this](absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat("table \"", name, "\": ", what));
  };
  if (name.empty() || name.size() > kNameBytesMax) {
    return absl::InvalidArgumentError(
        absl::StrFormat("table: a name has 1 to %d bytes, not %d", kNameBytesMax, name.size()));
  }
  if (columns == 0 || columns > kColumnsMax) {
    return wrong(absl::StrFormat("dim: %d is not in 1 to %d", columns, kColumnsMax));
  }
  if (capacity == 0 || capacity > kCapacityMax) {
    return wrong(absl::StrFormat("capacity: %d is not in 1 to %d", capacity, kCapacityMax));
  }
  if (!std::isfinite(initial.scale)) return wrong("init: its scale is not finite");
  if (absl::Status valid = optimizer.Validate(); !valid.ok()) return wrong(valid.message());
  return absl::OkStatus();
}

proto::Table ToProto(const TableSpec& spec) {
  proto::Table table;
  table.set_name(spec.name);
  table.set_columns(spec.columns);
  table.set_capacity(spec.capacity);
  table.set_seed(spec.seed);
  table.set_initial(ToProto(spec.initial.kind));
  table.set_initial_scale(spec.initial.scale);
  const RowOptimizer& optimizer = spec.optimizer;
  table.set_optimizer(static_cast<proto::Table::Optimizer>(optimizer.kind));
  table.set_weight_decay(optimizer.weight_decay);
  table.set_epsilon(optimizer.epsilon);
  table.set_initial_accumulator(optimizer.initial_accumulator);
  table.set_beta1(optimizer.beta1);
  table.set_beta2(optimizer.beta2);
  table.set_l1(optimizer.l1);
  table.set_l2(optimizer.l2);
  table.set_beta(optimizer.beta);
  return table;
}

absl::StatusOr<std::vector<TableSpec>> TablesOf(const proto::Layout& layout) {
  if (static_cast<uint32_t>(layout.tables_size()) > kTablesMax) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "the job has %d tables, at most %d are possible", layout.tables_size(), kTablesMax));
  }
  std::vector<TableSpec> tables;
  std::set<std::string> names;
  for (const proto::Table& table : layout.tables()) {
    absl::StatusOr<TableSpec> spec = FromProto(table);
    if (!spec.ok()) return spec.status();
    if (!names.insert(spec->name).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("table \"", spec->name, "\": two have this name"));
    }
    tables.push_back(*std::move(spec));
  }
  return tables;
}

}  // namespace strata::rows

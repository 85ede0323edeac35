#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "common/diverged.h"
#include "rows/row_batch.h"
#include "rows/row_key.h"
#include "rows/row_table.h"
#include "worker/client/c/client_calls.h"
#include "worker/client/c/strata_client_rows.h"
#include "worker/client/client_parts.h"

namespace strata::client {
namespace {

struct Table {
  std::unique_ptr<rows::RowTable> rows;
  rows::RowGradients pushed;
  uint64_t steps = 0;
  strata_client* client = nullptr;  // of the job whose servers have the rows; null: they are here
  int index = 0;                    // among the client's tables
};

}  // namespace
}  // namespace strata::client

// The table behind the C API.
struct strata_table {
  strata_table(std::unique_ptr<strata::rows::RowTable> rows, uint32_t columns)
      : table{.rows = std::move(rows), .pushed = strata::rows::RowGradients(columns)} {}

  absl::Mutex mutex;
  strata::client::Table table ABSL_GUARDED_BY(mutex);
  // Its calls wait for the servers, and meanwhile the program's signal handlers run.
  std::atomic<bool> is_on_servers{false};
};

namespace strata::client {
namespace {

using rows::RowTable;
using rows::TableSpec;

absl::StatusOr<TableSpec> SpecFrom(const strata_table_spec& from) {
  if (from.name == nullptr) return absl::InvalidArgumentError("table: it has no name");
  TableSpec spec = {.name = from.name,
                    .columns = from.columns,
                    .capacity = from.capacity,
                    .seed = from.seed,
                    .initial = {.scale = from.initial_scale},
                    .optimizer = {.weight_decay = from.weight_decay,
                                  .epsilon = from.epsilon,
                                  .initial_accumulator = from.initial_accumulator,
                                  .beta1 = from.beta1,
                                  .beta2 = from.beta2,
                                  .l1 = from.l1,
                                  .l2 = from.l2,
                                  .beta = from.beta}};
  const auto unknown = [&spec](absl::string_view field, int value) {
    return absl::InvalidArgumentError(
        absl::StrFormat("table \"%s\": %s: there is no %d", spec.name, field, value));
  };
  switch (from.initial) {
    case STRATA_UNIFORM:
      spec.initial.kind = rows::InitialValues::Kind::kUniform;
      break;
    case STRATA_NORMAL:
      spec.initial.kind = rows::InitialValues::Kind::kNormal;
      break;
    case STRATA_CONSTANT:
      spec.initial.kind = rows::InitialValues::Kind::kConstant;
      break;
    default:
      return unknown("init", from.initial);
  }
  switch (from.optimizer) {
    case STRATA_ROW_SGD:
      spec.optimizer.kind = rows::RowOptimizerKind::kSgd;
      break;
    case STRATA_ROW_ADAGRAD:
      spec.optimizer.kind = rows::RowOptimizerKind::kAdagrad;
      break;
    case STRATA_ROW_ROWWISE_ADAGRAD:
      spec.optimizer.kind = rows::RowOptimizerKind::kRowwiseAdagrad;
      break;
    case STRATA_ROW_ADAM:
      spec.optimizer.kind = rows::RowOptimizerKind::kAdam;
      break;
    case STRATA_ROW_FTRL:
      spec.optimizer.kind = rows::RowOptimizerKind::kFtrl;
      break;
    default:
      return unknown("optimizer", from.optimizer);
  }
  return spec;
}

// Runs one call of the table: `call` gets it, and returns a status, to which the name is added.
template <typename Call>
strata_code RunOn(strata_table* table, const char* name, const Call& call) {
  if (table == nullptr) {
    return Take(absl::InvalidArgumentError(absl::StrCat(name, ": the table is null")));
  }
  if (!table->mutex.TryLock()) {
    if (table->is_on_servers) {
      return Take(absl::FailedPreconditionError(
          absl::StrCat(name, ": another call of the table has not ended")));
    }
    table->mutex.Lock();
  }
  const absl::Status status = call(table->table);
  const std::string prefix = absl::StrCat("table \"", table->table.rows->spec().name, "\": ");
  table->mutex.Unlock();
  // The reason for which a job ends does not begin with a table's name.
  if (absl::IsUnavailable(status) || absl::IsCancelled(status)) return Take(status);
  return Take(absl::StartsWith(status.message(), prefix) ? status : Prefixed(prefix, status));
}

// Returns what `read` finds in the table; 0 without one. What it may read of a table on servers
// does not change.
template <typename Read>
uint64_t Read0(strata_table* table, const Read& read) ABSL_NO_THREAD_SAFETY_ANALYSIS {
  if (table == nullptr) return 0;
  if (table->is_on_servers) return read(table->table);
  absl::MutexLock lock(&table->mutex);
  return read(table->table);
}

absl::Status ExpectHere(const Table& on, absl::string_view call) {
  if (on.client == nullptr) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(call, ": the job's servers have its rows"));
}

absl::Span<const uint64_t> Unsigned(const int64_t* ids, uint64_t count) {
  return {reinterpret_cast<const uint64_t*>(ids), count};
}

absl::Status CheckIds(const int64_t* ids, uint64_t count) {
  for (uint64_t i = 0; i < count; ++i) {
    if (ids[i] < 0) return absl::InvalidArgumentError(absl::StrFormat("id %d is below 0", ids[i]));
  }
  return absl::OkStatus();
}

absl::Status CheckAscending(const int64_t* ids, uint64_t count) {
  const absl::Status ascend = rows::CheckAscending(absl::MakeConstSpan(ids, count));
  return ascend.ok() ? CheckIds(ids, std::min<uint64_t>(count, 1)) : ascend;
}

// LookUp or Take.
using LookUpCall = absl::Status (ClientRows::*)(int, absl::Span<const uint64_t>, float*);

// Ids may be repeated, and in any order.
absl::Status LookUpOnServers(Table& on, LookUpCall look, absl::Span<const uint64_t> ids,
                             float* to) {
  ClientRows& servers = on.client->client->rows();
  if (std::adjacent_find(ids.begin(), ids.end(), std::greater_equal<>()) == ids.end()) {
    return (servers.*look)(on.index, ids, to);
  }
  std::vector<uint64_t> distinct(ids.size());
  std::vector<int64_t> places(ids.size());
  distinct.resize(rows::UniqueIds(ids, distinct.data(), places.data()));
  const size_t columns = on.rows->spec().columns;
  std::vector<float> found(distinct.size() * columns);
  absl::Status status = (servers.*look)(on.index, distinct, found.data());
  for (size_t i = 0; i < ids.size() && status.ok(); ++i) {
    std::copy_n(&found[static_cast<size_t>(places[i]) * columns], columns, to + i * columns);
  }
  return status;
}

absl::Status Publish(Table& on, double lr, double scale) {
  std::vector<float> sums(on.pushed.sums(),
                          on.pushed.sums() + on.pushed.ids().size() * on.rows->spec().columns);
  for (float& sum : sums) sum *= static_cast<float>(scale);
  absl::Status pushed = on.client->client->rows().Push(on.index, on.pushed.ids(), sums.data(), lr);
  if (pushed.ok()) on.pushed.Clear();
  return pushed;
}

uint32_t ClockOf(uint64_t steps) {
  return static_cast<uint32_t>(std::min<uint64_t>(steps, std::numeric_limits<uint32_t>::max()));
}

void Write(const RowTable::Counts& from, strata_row_counts* to) {
  if (to == nullptr) return;
  WriteSized(
      strata_row_counts{
          .size = 0, .updated = from.updated, .stored = from.stored, .refused = from.refused},
      to);
}

}  // namespace
}  // namespace strata::client

using strata::client::CheckAscending;
using strata::client::CheckIds;
using strata::client::ExpectHere;
using strata::client::Read0;
using strata::client::RunOn;
using strata::client::Table;
using strata::client::Take;
using strata::client::Unsigned;
using strata::rows::RowTable;

strata_code strata_table_create(const strata_table_spec* spec, strata_table** table) {
  if (spec == nullptr || table == nullptr) {
    return Take(absl::InvalidArgumentError("strata_table_create: a pointer is null"));
  }
  *table = nullptr;
  auto checked = strata::client::SpecFrom(strata::client::Sized(*spec));
  if (!checked.ok()) return Take(checked.status());
  auto made = RowTable::Create(*checked, 0);
  if (!made.ok()) return Take(made.status());
  auto owned = std::make_unique<strata_table>(*std::move(made), checked->columns);
  *table = owned.release();
  return STRATA_OK;
}

void strata_table_destroy(strata_table* table) { const std::unique_ptr<strata_table> ends(table); }

uint64_t strata_table_rows(strata_table* table) {
  return Read0(table, [](const Table& on) { return on.rows->size(); });
}

uint64_t strata_table_bytes(strata_table* table) {
  return Read0(table, [](const Table& on) { return on.rows->memory_bytes(); });
}

uint32_t strata_table_state_columns(strata_table* table) {
  return static_cast<uint32_t>(
      Read0(table, [](const Table& on) { return on.rows->state_columns(); }));
}

uint32_t strata_rows_lookahead(strata_table* table) {
  const uint64_t ahead = Read0(table, [](const Table& on) -> uint64_t {
    return on.client == nullptr ? 1 : on.client->client->rows().lookahead();
  });
  return std::max<uint32_t>(1, static_cast<uint32_t>(ahead));
}

uint64_t strata_table_steps(strata_table* table) {
  return Read0(table, [](const Table& on) { return on.steps; });
}

strata_code strata_distinct_ids(strata_table* table, const int64_t* ids, uint64_t count,
                                int64_t* distinct, int64_t* places, uint64_t* distinct_count) {
  return RunOn(table, "strata_distinct_ids", [&](Table& on) {
    if (absl::Status valid = CheckIds(ids, count); !valid.ok()) return valid;
    *distinct_count = strata::rows::UniqueIds(Unsigned(ids, count),
                                              reinterpret_cast<uint64_t*>(distinct), places);
    return absl::OkStatus();
  });
}

namespace strata::client {
namespace {

strata_code LookUpWith(LookUpCall look, const char* call, strata_table* table, const int64_t* ids,
                       uint64_t count, float* rows) {
  return RunOn(table, call, [&](Table& on) {
    if (absl::Status valid = CheckIds(ids, count); !valid.ok()) return valid;
    if (on.client != nullptr) {
      return CallOn(on.client, call,
                    [&] { return LookUpOnServers(on, look, Unsigned(ids, count), rows); });
    }
    on.rows->Lookup(Unsigned(ids, count), rows);
    return absl::OkStatus();
  });
}

}  // namespace
}  // namespace strata::client

strata_code strata_lookup_rows(strata_table* table, const int64_t* ids, uint64_t count,
                               float* rows) {
  return strata::client::LookUpWith(&strata::client::ClientRows::LookUp, "strata_lookup_rows",
                                    table, ids, count, rows);
}

strata_code strata_take_rows(strata_table* table, const int64_t* ids, uint64_t count, float* rows) {
  return strata::client::LookUpWith(&strata::client::ClientRows::Take, "strata_take_rows", table,
                                    ids, count, rows);
}

strata_code strata_want_rows(strata_table* table, const int64_t* ids, uint64_t count) {
  return RunOn(table, "strata_want_rows", [&](Table& on) {
    if (absl::Status valid = CheckIds(ids, count); !valid.ok()) return valid;
    if (on.client == nullptr) return absl::OkStatus();
    std::vector<uint64_t> wanted(Unsigned(ids, count).begin(), Unsigned(ids, count).end());
    std::sort(wanted.begin(), wanted.end());
    wanted.erase(std::unique(wanted.begin(), wanted.end()), wanted.end());
    return strata::client::CallOn(on.client, "strata_want_rows",
                                  [&] { return on.client->client->rows().Want(on.index, wanted); });
  });
}

strata_code strata_push_rows(strata_table* table, const int64_t* ids, uint64_t count,
                             const float* gradients) {
  return RunOn(table, "strata_push_rows", [&](Table& on) {
    if (absl::Status valid = CheckAscending(ids, count); !valid.ok()) return valid;
    return on.pushed.Add(Unsigned(ids, count), gradients);
  });
}

strata_code strata_spread_bags(strata_table* table, const float* bags, const int64_t* ends,
                               uint64_t bag_count, const int64_t* places, float* rows,
                               uint64_t row_count) {
  return RunOn(table, "strata_spread_bags", [&](Table& on) {
    int64_t end = 0;
    for (uint64_t bag = 0; bag < bag_count; end = ends[bag++]) {
      if (ends[bag] < end) {
        return absl::InvalidArgumentError(
            absl::StrFormat("bag %d ends at %d, before it begins at %d", bag, ends[bag], end));
      }
    }
    for (int64_t at = 0; at < end; ++at) {
      if (places[at] < 0 || static_cast<uint64_t>(places[at]) >= row_count) {
        return absl::InvalidArgumentError(absl::StrFormat("place %d is not in 0 to %d", places[at],
                                                          static_cast<int64_t>(row_count) - 1));
      }
    }
    strata::rows::SpreadBags(bags, {ends, bag_count}, on.rows->spec().columns, places, rows);
    return absl::OkStatus();
  });
}

strata_code strata_forget_rows(strata_table* table) {
  return RunOn(table, "strata_forget_rows", [&](Table& on) {
    on.pushed.Clear();
    return absl::OkStatus();
  });
}

strata_code strata_step_rows(strata_table* table, double lr, strata_row_counts* counts) {
  return RunOn(table, "strata_step_rows", [&](Table& on) {
    if (absl::Status here = ExpectHere(on, "strata_step_rows"); !here.ok()) return here;
    const auto rate = static_cast<float>(lr);
    if (!std::isfinite(rate) || rate < 0) {
      return absl::InvalidArgumentError(
          absl::StrFormat("lr: %g is not a finite number >= 0 of fp32", lr));
    }
    const uint64_t number = ++on.steps;
    const uint32_t clock = strata::client::ClockOf(number);
    strata::client::Write(
        on.rows->Update(on.pushed.ids(), on.pushed.sums(), {.lr = rate, .number = number}, clock),
        counts);
    on.pushed.Clear();
    return absl::OkStatus();
  });
}

strata_code strata_join_table(strata_client* client, strata_table* table) {
  return RunOn(table, "strata_join_table", [&](Table& on) -> absl::Status {
    if (client == nullptr) return absl::InvalidArgumentError("the client is null");
    if (absl::Status here = ExpectHere(on, "strata_join_table"); !here.ok()) return here;
    if (on.rows->size() > 0) {
      return absl::FailedPreconditionError(absl::StrFormat(
          "has %d rows of its own, which servers do not take over as yet", on.rows->size()));
    }
    on.client = client;
    absl::Status joined = strata::client::CallOn(on.client, "strata_join_table", [&] {
      const absl::StatusOr<int> index = client->client->rows().Add(on.rows->spec());
      if (index.ok()) on.index = *index;
      return index.status();
    });
    if (!joined.ok()) on.client = nullptr;
    table->is_on_servers = joined.ok();
    return joined;
  });
}

strata_code strata_publish_rows(strata_table* table, double lr, double scale) {
  return RunOn(table, "strata_publish_rows", [&](Table& on) -> absl::Status {
    if (on.client == nullptr) {
      return absl::FailedPreconditionError("has joined no job: strata_step_rows");
    }
    return strata::client::CallOn(on.client, "strata_publish_rows",
                                  [&] { return strata::client::Publish(on, lr, scale); });
  });
}

strata_code strata_stored_ids(strata_table* table, int64_t* ids, uint64_t room, uint64_t* count) {
  return RunOn(table, "strata_stored_ids", [&](Table& on) {
    if (absl::Status here = ExpectHere(on, "strata_stored_ids"); !here.ok()) return here;
    const std::vector<uint64_t> found = on.rows->StoredIds();
    *count = found.size();
    if (found.size() > room) {
      return absl::InvalidArgumentError(
          absl::StrFormat("room for %d ids, but %d rows are stored", room, found.size()));
    }
    std::copy(found.begin(), found.end(), ids);
    return absl::OkStatus();
  });
}

strata_code strata_read_row_state(strata_table* table, const int64_t* ids, uint64_t count,
                                  float* state) {
  return RunOn(table, "strata_read_row_state", [&](Table& on) {
    absl::Status valid = ExpectHere(on, "strata_read_row_state");
    if (valid.ok()) valid = CheckIds(ids, count);
    if (!valid.ok()) return valid;
    return on.rows->ReadState(Unsigned(ids, count), state);
  });
}

strata_code strata_store_rows(strata_table* table, const int64_t* ids, uint64_t count,
                              const float* weights, const float* state, strata_row_counts* counts) {
  return RunOn(table, "strata_store_rows", [&](Table& on) {
    absl::Status valid = ExpectHere(on, "strata_store_rows");
    if (valid.ok()) valid = CheckAscending(ids, count);
    if (!valid.ok()) return valid;
    const uint32_t clock = strata::client::ClockOf(on.steps);
    strata::client::Write(on.rows->Store(Unsigned(ids, count), weights, state, clock), counts);
    return absl::OkStatus();
  });
}

strata_code strata_set_table_steps(strata_table* table, uint64_t steps) {
  return RunOn(table, "strata_set_table_steps", [&](Table& on) {
    if (absl::Status here = ExpectHere(on, "strata_set_table_steps"); !here.ok()) return here;
    if (steps > uint64_t{1} << 62) {
      return absl::InvalidArgumentError(absl::StrFormat("steps: %d is more than 2^62", steps));
    }
    on.steps = steps;
    return absl::OkStatus();
  });
}

#include "server/coordinator/jobs/go_on.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/checkpoint/manifest.h"
#include "common/job/arena.h"
#include "common/job/consistency.h"
#include "common/job/job.h"
#include "common/job/number_check.h"
#include "common/os/message_bounds.h"
#include "google/protobuf/text_format.h"

namespace strata::server {
namespace {

using google::protobuf::Message;

std::string TextOf(const Message& message) {
  google::protobuf::TextFormat::Printer printer;
  printer.SetSingleLineMode(true);
  std::string text;
  printer.PrintToString(message, &text);
  if (!text.empty()) text.pop_back();  // a blank
  return absl::StrCat("{", text, "}");
}

absl::Status Differ(const char* field, const std::string& job, const std::string& from) {
  return Refuse(absl::StrFormat("%s: %s, but the checkpoint's is %s", field, job, from));
}

absl::Status SameMessage(const char* field, const Message& job, const Message& from) {
  const std::string a = TextOf(job), b = TextOf(from);
  return a == b ? absl::OkStatus() : Differ(field, a, b);
}

absl::Status SameNumber(const char* field, uint64_t job, uint64_t from) {
  return job == from ? absl::OkStatus() : Differ(field, absl::StrCat(job), absl::StrCat(from));
}

absl::Status SameText(const char* field, const std::string& job, const std::string& from) {
  return job == from ? absl::OkStatus() : Differ(field, job, from);
}

// File locations are not compared: files may have moved.
absl::Status SameData(const proto::Job& job, const proto::Job& from) {
  const auto without_folders = [](proto::Data data) {
    if (data.has_idx()) data.mutable_idx()->clear_dir();
    if (data.has_cifar10()) data.mutable_cifar10()->clear_dir();
    return data;
  };
  return SameMessage("data", without_folders(job.data()), without_folders(from.data()));
}

std::string KeptByRanks(const proto::JobRecord& record) {
  return record.ranks_keep_state() ? "kept" : "none";
}

absl::Status SameWork(const proto::Job& job, const proto::Job& from) {
  if (job.work_case() != from.work_case()) {
    const auto name = [](const proto::Job& one) { return one.has_model() ? "model" : "program"; };
    return Differ("model, program", name(job), name(from));
  }
  if (job.has_program())
    return SameText("program.path", job.program().path(), from.program().path());
  return SameMessage("model", job.model(), from.model());
}

// If nodes joined and left, their places tell who participated in which step.
absl::Status SameNodes(const proto::Job& job, const proto::Job& from) {
  if (!IsElastic(from)) return absl::OkStatus();
  if (!IsElastic(job)) return Differ("ranks_max", "none", absl::StrCat(from.ranks_max()));
  if (job.ranks_max() < from.ranks_max()) {
    return SameNumber("ranks_max", job.ranks_max(), from.ranks_max());
  }
  return SameNumber("ranks_per_node", job.ranks_per_node(), from.ranks_per_node());
}

// Capacities may differ, and the order in which tables are registered may not: rows are stored by a
// table's place.
absl::Status SameTables(const proto::Layout& layout, const proto::Layout& from) {
  const int both = std::min(layout.tables_size(), from.tables_size());
  for (int i = 0; i < both; ++i) {
    proto::Table table = layout.tables(i), before = from.tables(i);
    table.clear_capacity();
    before.clear_capacity();
    absl::Status same = SameMessage(absl::StrFormat("table %d", i).c_str(), table, before);
    if (!same.ok()) return same;
  }
  return SameNumber("tables", layout.tables_size(), from.tables_size());
}

constexpr absl::Duration kFirstDelay = absl::Milliseconds(500);
constexpr absl::Duration kLongestDelay = absl::Minutes(1);

}  // namespace

absl::StatusOr<proto::JobRecord> RecordOf(const Manifest& manifest) {
  proto::JobRecord record;
  if (!record.ParseFromString(manifest.record)) {
    return absl::DataLossError(
        absl::StrFormat("the checkpoint of step %d holds no record of its job", manifest.clock));
  }
  // The record is untrusted: anybody who can write to the folder may have written it.
  if (const absl::Status bounded = CheckBounds(record); !bounded.ok()) {
    return absl::DataLossError(absl::StrFormat("the checkpoint of step %d: its job's record: %s",
                                               manifest.clock, bounded.message()));
  }
  return record;
}

absl::Status CheckContinues(const proto::Job& job, const proto::JobRecord& record) {
  const proto::Job& from = record.job();
  absl::Status same = All({
      SameWork(job, from),
      SameData(job, from),
      SameNumber("seed", job.seed(), from.seed()),
      SameNumber("ranks", job.ranks(), from.ranks()),
      SameNodes(job, from),
      SameText("exchange", proto::Job::Exchange_Name(job.exchange()),
               proto::Job::Exchange_Name(from.exchange())),
      SameMessage("consistency", WithoutName(job.consistency()), WithoutName(from.consistency())),
      SameMessage("rows.consistency", WithoutName(RowsConsistency(job)),
                  WithoutName(RowsConsistency(from))),
      SameMessage("push", job.push(), from.push()),
      SameMessage("pull", job.pull(), from.pull()),
      SameText("order", proto::Addition::Order_Name(job.order()),
               proto::Addition::Order_Name(from.order())),
  });
  if (!same.ok()) return same;
  if (job.chunk_elements() != 0) {
    same = SameNumber("chunk_elements", job.chunk_elements(), record.placement().chunk_elements());
    if (!same.ok()) return same;
  }
  if (job.rows().buckets() != 0) {
    same =
        SameNumber("rows.buckets", job.rows().buckets(), record.placement().shard_of_bucket_size());
    if (!same.ok()) return same;
  }
  // The program's optimizer is compared once it is known.
  if (job.optimizer().has_from_program()) return absl::OkStatus();
  return SameMessage("optimizer", job.optimizer(), from.optimizer());
}

absl::Status CheckContinues(const proto::JobRecord& record, const proto::JobRecord& from) {
  const proto::Layout& layout = record.layout();
  if (absl::Status same = SameTables(layout, from.layout()); !same.ok()) return same;
  const int both = std::min(layout.segments_size(), from.layout().segments_size());
  for (int i = 0; i < both; ++i) {
    const std::string a = TensorText(layout.segments(i)), b = TensorText(from.layout().segments(i));
    if (a != b) return Differ(absl::StrFormat("tensor %d", i).c_str(), a, b);
  }
  return All({
      SameNumber("tensors", layout.segments_size(), from.layout().segments_size()),
      SameNumber("samples of an epoch", record.samples_per_epoch(), from.samples_per_epoch()),
      SameMessage("optimizer", record.job().optimizer(), from.job().optimizer()),
      SameText("state of ranks", KeptByRanks(record), KeptByRanks(from)),
  });
}

absl::StatusOr<proto::Resume> MakeResume(const std::string& dir, const Manifest& manifest,
                                         const proto::JobRecord& from) {
  proto::Resume resume;
  resume.set_dir(dir);
  resume.set_clock(manifest.clock);
  resume.set_step(manifest.clock * StepsPerClock(from.job()));
  std::map<PartName, uint32_t> index;
  for (const ObjectFacts& facts : manifest.objects) {
    const std::optional<PartName> part = ParsePartName(facts.name);
    if (!part) continue;
    index[*part] = resume.objects_size();
    proto::CheckpointObject* object = resume.add_objects();
    object->set_name(facts.name);
    object->set_bytes(facts.bytes);
    object->set_checksum(facts.checksum);
    object->mutable_buckets()->Add(facts.buckets.begin(), facts.buckets.end());
  }
  absl::Status status;
  const auto find = [&](PartKind kind, uint32_t number) -> uint32_t {
    const auto object = index.find({kind, number});
    if (object != index.end()) return object->second;
    status.Update(absl::DataLossError(absl::StrFormat(
        "the checkpoint of step %d has no object of %s %d", resume.step(), WordFor(kind), number)));
    return 0;
  };
  for (const uint32_t shard : from.placement().shard_of_chunk()) {
    resume.add_object_of_chunk(find(PartKind::kShard, shard));
  }
  for (const uint32_t shard : from.placement().shard_of_bucket()) find(PartKind::kRows, shard);
  for (const auto& [part, object] : index) {
    if (part.piece == 0 || index.contains({part.kind, part.number, part.piece - 1})) continue;
    status.Update(
        absl::DataLossError(absl::StrFormat("the checkpoint of step %d has no object %d of rows %d",
                                            resume.step(), part.piece - 1, part.number)));
  }
  if (RanksKeepWeights(from.job())) find(PartKind::kShard, 0);
  const bool is_ring = from.job().exchange() == proto::Job::RING;
  for (int n = 0; is_ring && n < from.view().nodes_size(); ++n) find(PartKind::kShard, n);
  for (int n = 0; NodesKeepState(from.job()) && n < from.view().nodes_size(); ++n) {
    resume.add_object_of_node(find(PartKind::kNode, n));
  }
  for (uint32_t r = 0; from.ranks_keep_state() && r < from.job().ranks(); ++r) {
    resume.add_object_of_rank(find(PartKind::kRank, r));
  }
  if (!status.ok()) return status;
  return resume;
}

bool MayContinue(const proto::Job& job, const proto::JobStatus& status, bool can_start,
                 absl::Time now) {
  if (!job.has_restart() || !can_start) return false;
  const proto::Restart& restart = job.restart();
  const absl::Time since = now - absl::Hours(restart.within_hours());
  const auto& restarts = status.restarts();
  const auto lately = std::count_if(restarts.begin(), restarts.end(), [&](const auto& one) {
    return absl::FromUnixMillis(one.failed_ms()) > since;
  });
  return lately < restart.attempts();
}

absl::Duration DelayBeforeGoingOn(const proto::JobStatus& status) {
  absl::Duration delay = kFirstDelay;
  // Restarts that resumed from where the job would resume now.
  uint64_t from = status.checkpoints().complete() > 0 ? status.checkpoints().newest_step() : 0;
  for (int i = status.restarts_size() - 1; i >= 0 && status.restarts(i).step() >= from; --i) {
    delay = std::min(2 * delay, kLongestDelay);
  }
  return delay;
}

}  // namespace strata::server

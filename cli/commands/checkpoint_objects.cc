#include "cli/commands/checkpoint_objects.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "common/checkpoint/checkpoints.h"
#include "common/checkpoint/manifest.h"
#include "common/counted.h"
#include "common/image/image_file.h"
#include "common/job/arena.h"
#include "common/job/consistency.h"
#include "common/job/job.h"
#include "rows/row_key.h"
#include "rows/row_update.h"
#include "rows/table_spec.h"

namespace strata::cli {

absl::Status RangeCover::Add(uint64_t begin, uint64_t count, const std::string& object) {
  if (count == 0 || begin >= elements_ || count > elements_ - begin) {
    return absl::DataLossError(absl::StrFormat(
        "%s: %d elements from element %d on, but the job has %d", object, count, begin, elements_));
  }
  const auto after = ranges_.lower_bound(begin);
  const auto clash = [&](uint64_t element, const Range& other) {
    return absl::DataLossError(
        absl::StrFormat("%s: has element %d, which %s has, too", object, element, other.object));
  };
  if (after != ranges_.end() && after->first < begin + count) {
    return clash(after->first, after->second);
  }
  if (after != ranges_.begin() && std::prev(after)->second.end > begin) {
    return clash(begin, std::prev(after)->second);
  }
  ranges_[begin] = {begin + count, object};
  return absl::OkStatus();
}

absl::Status RangeCover::ExpectAll(const std::string& what) const {
  uint64_t end = 0;
  const auto gap = [&](uint64_t until) {
    return absl::DataLossError(
        absl::StrFormat("%s: elements %d to %d are in no object", what, end, until - 1));
  };
  for (const auto& [begin, range] : ranges_) {
    if (begin != end) return gap(begin);
    end = range.end;
  }
  return end == elements_ ? absl::OkStatus() : gap(elements_);
}

namespace {

absl::Status Wrong(const std::string& path, const std::string& why) {
  return absl::DataLossError(absl::StrCat(path, ": ", why));
}

// Returns the error of what is there, but is not what it should be, or is not there; a store that
// does not answer keeps its own.
absl::Status AsDamage(const absl::Status& status) {
  const bool is_damage = absl::IsNotFound(status) || absl::IsInvalidArgument(status);
  return is_damage ? absl::DataLossError(status.message()) : status;
}

// The state vectors of chunks, and of what nodes have of their own.
size_t SharedVectors(const proto::Job& job) { return StateVectors(SharedOptimizer(job).kind); }
size_t OwnVectors(const proto::Job& job) {
  return StateVectors(MakeOptimizerParams(job.optimizer()).kind);
}

bool KeepsMeanSquare(const proto::Job& job) {
  const std::optional<DelayCompensation> how = MakeDelayCompensation(job.consistency());
  return how && how->adaptive;
}

// Checks the objects of one checkpoint as they are read.
class Checker {
 public:
  Checker(Store& store, const Manifest& manifest, const proto::JobRecord& record,
          const ObjectTaker& taker)
      : where_(store.where()),
        manifest_(manifest),
        record_(record),
        taker_(taker),
        arena_(record.layout().elements()) {}

  absl::Status Take(const ObjectFacts& object, const Bytes& content) {
    path_ = absl::StrCat(where_, "/", object.name);
    const std::optional<PartName> part = ParsePartName(object.name);
    if (!part) return Wrong(path_, "this version knows no object of that name");
    switch (part->kind) {
      case PartKind::kShard:
        return TakeShard(content);
      case PartKind::kNode:
        return TakeNode(part->number, content);
      case PartKind::kRank:
        return TakeRank(part->number, content);
      case PartKind::kRows:
        return TakeRows(object, *part, content);
    }
    return absl::OkStatus();
  }

  absl::Status Finish() const {
    const std::string folder = absl::StrCat(
        where_, "/", absl::StripSuffix(Checkpoints::ObjectName(manifest_.clock, ""), "/"));
    for (const auto& [shard, pieces] : pieces_) {
      const auto& [last, is_last] = *pieces.rbegin();
      if (last + 1 == pieces.size() && is_last) continue;
      return Wrong(folder,
                   absl::StrFormat("has %d objects with rows of shard %d, which are not all",
                                   pieces.size(), shard));
    }
    for (int bucket = 0; bucket < record_.placement().shard_of_bucket_size(); ++bucket) {
      if (buckets_.contains(static_cast<uint32_t>(bucket))) continue;
      return Wrong(folder, absl::StrFormat("rows of bucket %d are in no object", bucket));
    }
    return arena_.ExpectAll(folder);
  }

 private:
  absl::Status ExpectClock(uint64_t clock, const std::string& what) const {
    if (clock == manifest_.clock) return absl::OkStatus();
    return Wrong(path_, absl::StrFormat("%s is of step %d, the checkpoint of step %d", what, clock,
                                        manifest_.clock));
  }

  absl::Status ExpectVectors(const WeightImage& image, size_t vectors,
                             const std::string& what) const {
    if (image.state.size() == vectors) return absl::OkStatus();
    return Wrong(path_, absl::StrFormat("%s has %s of optimizer state, the job's optimizer %d",
                                        what, Counted(image.state.size(), "vector"), vectors));
  }

  absl::Status TakeShard(const Bytes& content) {
    const absl::StatusOr<std::vector<ChunkImage>> images = ParseImageFile(content, path_);
    if (!images.ok()) return AsDamage(images.status());
    for (const ChunkImage& image : *images) {
      if (absl::Status status = CheckChunk(image); !status.ok()) return status;
      if (taker_.on_chunk) taker_.on_chunk(image);
    }
    return absl::OkStatus();
  }

  absl::Status CheckChunk(const ChunkImage& image) {
    const std::string what = absl::StrCat("the range from element ", image.begin, " on");
    const uint64_t count = image.weights.weights.float_count();
    if (absl::Status status = arena_.Add(image.begin, count, path_); !status.ok()) return status;
    if (absl::Status status = ExpectClock(image.clock, what); !status.ok()) return status;
    const size_t vectors = SharedVectors(record_.job());
    if (absl::Status status = ExpectVectors(image.weights, vectors, what); !status.ok()) {
      return status;
    }
    const size_t nodes = record_.view().nodes_size();
    if (!image.applied.empty() && image.applied.size() != nodes) {
      return Wrong(path_, absl::StrFormat("%s has the pushes of %s, the job has %d", what,
                                          Counted(image.applied.size(), "node"), nodes));
    }
    const bool keeps = KeepsMeanSquare(record_.job());
    if (image.mean_square.empty() != keeps) return absl::OkStatus();
    return Wrong(path_, absl::StrCat(what, keeps ? " lacks the" : " has a",
                                     " mean square of gradients, which the job ",
                                     keeps ? "keeps" : "does not keep"));
  }

  absl::Status TakeNode(uint32_t node, const Bytes& content) {
    const absl::StatusOr<NodeImage> image = ParseNodeImageFile(content, path_);
    if (!image.ok()) return AsDamage(image.status());
    if (image->node != node) {
      return Wrong(path_, absl::StrCat("is the image of node ", image->node));
    }
    const auto& nodes = record_.view().nodes();
    const bool is_known = std::any_of(nodes.begin(), nodes.end(),
                                      [&](const auto& node) { return node.node() == image->node; });
    if (!is_known) return Wrong(path_, absl::StrCat("the job has no node ", image->node));
    if (absl::Status status = CheckNode(*image); !status.ok()) return status;
    if (taker_.on_node) taker_.on_node(*image);
    return absl::OkStatus();
  }

  // The contents of the state are its program's affair.
  absl::Status TakeRank(uint32_t rank, const Bytes& content) const {
    const absl::StatusOr<RankImage> image = ParseRankImageFile(content, path_);
    if (!image.ok()) return AsDamage(image.status());
    if (image->rank != rank) {
      return Wrong(path_, absl::StrCat("is the state of rank ", image->rank));
    }
    if (image->rank >= record_.job().ranks()) {
      return Wrong(path_, absl::StrCat("the job has no rank ", image->rank));
    }
    if (absl::Status of_clock = ExpectClock(image->clock, "the state"); !of_clock.ok()) {
      return of_clock;
    }
    if (taker_.on_rank) taker_.on_rank(*image);
    return absl::OkStatus();
  }

  absl::Status TakeRows(const ObjectFacts& object, const PartName& part, const Bytes& content) {
    const absl::StatusOr<RowsImage> image = ParseRowsImageFile(content, path_);
    if (!image.ok()) return AsDamage(image.status());
    if (absl::Status status = ExpectClock(image->clock, "it"); !status.ok()) return status;
    const auto buckets = static_cast<uint32_t>(record_.placement().shard_of_bucket_size());
    if (image->buckets != buckets) {
      return Wrong(path_,
                   absl::StrFormat("is of %d buckets, the job has %d", image->buckets, buckets));
    }
    std::vector<uint32_t> own;
    std::vector<bool> is_own(buckets);
    for (const BucketImage& part : image->parts) {
      own.push_back(part.bucket);
      is_own[part.bucket] = true;
    }
    if (own != object.buckets) return Wrong(path_, "has other buckets than its manifest says");
    buckets_.insert(own.begin(), own.end());
    pieces_[part.number][part.piece] = image->is_last;
    const absl::StatusOr<std::vector<rows::TableSpec>> tables = rows::TablesOf(record_.layout());
    if (!tables.ok()) return Wrong(path_, std::string(tables.status().message()));
    for (const TableRows& rows : image->tables) {
      if (absl::Status status = CheckTable(rows, *tables, is_own); !status.ok()) return status;
    }
    return taker_.on_rows ? taker_.on_rows(*image) : absl::OkStatus();
  }

  // `is_own` says of each bucket of the job whether the piece has its rows.
  absl::Status CheckTable(const TableRows& rows, const std::vector<rows::TableSpec>& tables,
                          const std::vector<bool>& is_own) const {
    if (rows.table >= tables.size()) {
      return Wrong(path_, absl::StrFormat("has rows of table %d, the job %d tables", rows.table,
                                          tables.size()));
    }
    const rows::TableSpec& spec = tables[rows.table];
    if (rows.columns != spec.columns ||
        rows.state_columns != rows::StateColumns(spec.optimizer.kind, spec.columns)) {
      return Wrong(path_,
                   absl::StrFormat("table \"%s\": its rows are of other columns", spec.name));
    }
    const auto bits = static_cast<uint32_t>(std::countr_zero(is_own.size()));
    for (const uint64_t id : rows.ids) {
      const uint32_t bucket = rows::BucketOf(spec.seed, id, bits);
      if (is_own[bucket]) continue;
      return Wrong(path_,
                   absl::StrFormat("table \"%s\": id %d lies in bucket %d", spec.name, id, bucket));
    }
    return absl::OkStatus();
  }

  absl::Status CheckNode(const NodeImage& image) {
    const uint64_t steps = manifest_.clock * StepsPerClock(record_.job());
    if (image.clock != steps) {
      return Wrong(path_, absl::StrFormat("has made %s, the checkpoint is of %d",
                                          Counted(image.clock, "step"), steps));
    }
    RangeCover cover(record_.layout().elements());
    for (const NodeChunkImage& chunk : image.chunks) {
      absl::Status status = cover.Add(chunk.begin, chunk.elements, path_);
      if (!status.ok()) return status;
      if (status = CheckNodeChunk(chunk); !status.ok()) return status;
    }
    return cover.ExpectAll(path_);
  }

  absl::Status CheckNodeChunk(const NodeChunkImage& chunk) const {
    const std::string what = absl::StrCat("the range from element ", chunk.begin, " on");
    const proto::Job& job = record_.job();
    const auto expect = [&](const char* name, bool is_there, bool is_kept) {
      if (is_there == is_kept) return absl::OkStatus();
      return Wrong(path_, absl::StrCat(what, is_kept ? " lacks " : " has ", name,
                                       ", which the job ", is_kept ? "keeps" : "does not keep"));
    };
    absl::Status status =
        expect("weights of local steps", chunk.local.has_value(), NodesMakeLocalSteps(job));
    if (!status.ok()) return status;
    status = expect("weights that nodes update", chunk.norms.has_value(), AppliesOnNodes(job));
    if (!status.ok()) return status;
    if (chunk.local) status = ExpectVectors(chunk.local->own, OwnVectors(job), what);
    if (status.ok() && chunk.norms) status = ExpectVectors(*chunk.norms, OwnVectors(job), what);
    return status;
  }

  const std::string where_;
  const Manifest& manifest_;
  const proto::JobRecord& record_;
  const ObjectTaker& taker_;
  RangeCover arena_;
  // By shard: objects with its rows, and whether they are the last.
  std::map<uint32_t, std::map<uint32_t, bool>> pieces_;
  std::set<uint32_t> buckets_;  // of rows that are there
  std::string path_;            // of the object in hand
};

}  // namespace

absl::StatusOr<proto::JobRecord> RecordOf(const Manifest& manifest, const std::string& where) {
  const std::string path =
      absl::StrCat(where, "/", Checkpoints::ObjectName(manifest.clock, "manifest.json"));
  proto::JobRecord record;
  if (!record.ParseFromString(manifest.record)) return Wrong(path, "its record is no job's record");
  if (record.job_id() != manifest.job) {
    return Wrong(
        path, absl::StrCat("it is of job ", manifest.job, ", its record of job ", record.job_id()));
  }
  // The coordinator fills in the size of chunks, and a small model's is less than a user may name.
  proto::Job job = record.job();
  if (job.chunk_elements() == record.placement().chunk_elements()) job.clear_chunk_elements();
  for (const absl::Status& status : {ValidateJob(job), ValidateLayout(record.layout())}) {
    if (!status.ok()) return Wrong(path, absl::StrCat("its record: ", status.message()));
  }
  return record;
}

absl::Status ReadObjects(Store& store, const Manifest& manifest, const proto::JobRecord& record,
                         const ObjectTaker& taker) {
  Checker checker(store, manifest, record, taker);
  uint64_t bytes = 0;
  for (const ObjectFacts& object : manifest.objects) {
    if (taker.on_object) taker.on_object(object, bytes);
    const absl::StatusOr<Bytes> content = Checkpoints(store).Read(object);
    if (!content.ok()) return AsDamage(content.status());
    if (absl::Status status = checker.Take(object, *content); !status.ok()) return status;
    bytes += object.bytes;
  }
  return checker.Finish();
}

}  // namespace strata::cli

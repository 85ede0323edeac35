#ifndef STRATA_COMMON_CHECKPOINT_MANIFEST_H_
#define STRATA_COMMON_CHECKPOINT_MANIFEST_H_

#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

struct XXH3_state_s;  // of xxhash.h

namespace strata {

// The owner of the state in a checkpoint's object. A shard has one of its chunks, and one or more
// of its rows.
enum class PartKind { kShard, kNode, kRank, kRows };
// Returns "shard", "node", "rank" or "rows".
const char* WordFor(PartKind kind);

// The object of one shard, node or rank of the job.
struct PartName {
  PartKind kind = PartKind::kShard;
  uint32_t number = 0;
  uint32_t piece = 0;  // of rows: which object

  auto operator<=>(const PartName&) const = default;
};

// Returns the part's object name, within its checkpoint: "shard-3-7.0", for job 7's first attempt;
// "rows-3.12-7.0" for piece 12 of rows.
// No two attempts of jobs write to the same object.
std::string ToText(const PartName& part, uint32_t job, uint32_t attempt);
// Parses the name of an object: "clock-.../shard-3-7.0", also without the job's. nullopt: it is not
// a part's.
std::optional<PartName> ParsePartName(const std::string& object);

// One object of a checkpoint.
struct ObjectFacts {
  std::string name;  // in the store
  uint64_t bytes = 0;
  uint64_t checksum = 0;               // XXH3-64
  std::vector<uint32_t> buckets = {};  // of rows: which ones it has rows of

  bool operator==(const ObjectFacts&) const = default;
};
// The checksum of an object in pieces: XXH3, 64 bits.
class ObjectSum {
 public:
  ObjectSum();
  void Add(absl::Span<const char> bytes);
  uint64_t Value() const;

 private:
  std::unique_ptr<XXH3_state_s, int (*)(XXH3_state_s*)> state_;
};

// Returns the facts of an object in pieces.
ObjectFacts FactsOf(const std::string& name, absl::Span<const absl::Span<const char>> pieces);

// The list of a checkpoint's objects. It is written last: a checkpoint without a manifest does not
// count.
struct Manifest {
  uint32_t job = 0;
  std::string job_name;
  uint64_t clock = 0;  // the weights contain all pushes before it
  absl::Time written;  // in whole seconds
  std::string record;  // the JobRecord, serialized
  std::vector<ObjectFacts> objects;

  bool operator==(const Manifest&) const = default;
};

// A job goes on from no more: its record lists them.
inline constexpr size_t kCheckpointObjectsMax = 65536;
// A job's record, which is most of it, has at most 32 MiB.
inline constexpr uint64_t kManifestBytesMax = 64 << 20;
inline constexpr char kManifestFormat[] = "strata-checkpoint-1";

// Returns JSON, and a line with its checksum.
std::string SerializeManifest(const Manifest& manifest);
// Errors: InvalidArgument naming `path` and what is wrong: a changed byte, a missing field, an
// object named twice; FailedPrecondition: another format, naming both.
absl::StatusOr<Manifest> ParseManifest(absl::Span<const char> content, const std::string& path);

}  // namespace strata

#endif  // STRATA_COMMON_CHECKPOINT_MANIFEST_H_

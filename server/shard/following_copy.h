#ifndef STRATA_SERVER_SHARD_FOLLOWING_COPY_H_
#define STRATA_SERVER_SHARD_FOLLOWING_COPY_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/time/time.h"
#include "common/wire/frame.h"
#include "server/shard/backup_line.h"
#include "server/shard/copy_frames.h"
#include "server/shard/shard_action.h"

namespace strata::server {

// Another copy of a shard, which gets each change that is made here. If it begins empty, it gets
// each chunk first, and changes of a chunk from then on.
//
// Threads: one.
class FollowingCopy {
 public:
  // Returns the frames that transfer the current state of a chunk.
  using SayChunk = absl::FunctionRef<std::vector<wire::Frame>(size_t chunk)>;

  // `fill`: the chunks that it lacks; absent: none.
  FollowingCopy(BackupLine::Options options, std::optional<BackupFill> fill);

  const std::string& address() const { return address_; }
  BackupLine& line() { return *line_; }
  const BackupLine& line() const { return *line_; }
  bool is_whole() const { return !fill_; }
  size_t chunks_missing() const { return fill_ ? fill_->Missing(line_->acknowledged()) : 0; }
  // Returns whether changes of the chunk are sent: not before the chunk itself, which will contain
  // them.
  bool Follows(size_t chunk) const { return !fill_ || fill_->IsSent(chunk); }

  // Sends a change of a chunk, or of all chunks (no `chunk`), if the copy follows. `made_at` is the
  // shard's time.
  void Log(const wire::Frame& change, std::optional<size_t> chunk, absl::Time made_at,
           absl::Time now);
  // Sends chunks that the copy lacks, until `bytes_max` are in flight.
  void Fill(uint64_t bytes_max, absl::Time made_at, absl::Time now, SayChunk say);

 private:
  void Say(wire::Frame change, absl::Time made_at, absl::Time now);

  std::string address_;
  std::unique_ptr<BackupLine> line_;
  std::optional<BackupFill> fill_;
};

// The copy that will be the shard's backup, so that a shard can leave a server without ever having
// fewer than two whole copies. The primary fills it if its backup moves elsewhere, the backup fills
// it if that becomes the primary. Whatever either of them confirms, the next backup has, too.
struct NextBackup {
  // Stops following from here. Appends what was withheld for it.
  void Drop(std::vector<ShardAction>* actions);

  std::optional<FollowingCopy> copy;
  uint32_t generation = 0;  // the newest generation of any next backup
};

}  // namespace strata::server

#endif  // STRATA_SERVER_SHARD_FOLLOWING_COPY_H_

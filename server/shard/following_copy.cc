#include "server/shard/following_copy.h"

#include <utility>

namespace strata::server {

FollowingCopy::FollowingCopy(BackupLine::Options options, std::optional<BackupFill> fill)
    : address_(options.address),
      line_(std::make_unique<BackupLine>(std::move(options))),
      fill_(std::move(fill)) {}

void FollowingCopy::Log(const wire::Frame& change, std::optional<size_t> chunk, absl::Time made_at,
                        absl::Time now) {
  if (chunk && !Follows(*chunk)) return;
  Say(change, made_at, now);
}

void FollowingCopy::Say(wire::Frame change, absl::Time made_at, absl::Time now) {
  change.header.flags &= wire::kFlagEmpty;
  change.header.payload_kind = wire::PayloadKind::kInline;
  change.header.min_clock = static_cast<uint64_t>(absl::ToUnixNanos(made_at));
  line_->Log(std::move(change), now);
}

void FollowingCopy::Fill(uint64_t bytes_max, absl::Time made_at, absl::Time now, SayChunk say) {
  if (!fill_) return;
  while (const std::optional<size_t> chunk = fill_->next()) {
    if (!line_->is_up() || line_->bytes() >= bytes_max) return;
    for (wire::Frame& part : say(*chunk)) Say(std::move(part), made_at, now);
    fill_->OnSent(line_->said());
  }
  if (chunks_missing() == 0) fill_.reset();
}

void NextBackup::Drop(std::vector<ShardAction>* actions) {
  if (!copy) return;
  copy->line().GiveUp(actions);
  copy.reset();
}

}  // namespace strata::server

#ifndef STRATA_SERVER_SHARD_FRAMES_SHARD_ACTION_H_
#define STRATA_SERVER_SHARD_FRAMES_SHARD_ACTION_H_

#include <string>

#include "common/ids.h"
#include "common/transport/endpoint.h"
#include "common/wire/frame.h"

namespace strata::server {

// What a shard wants done; the loop around it does it in order.
struct ShardAction {
  enum class Kind {
    kSend,
    kClose,
    kConnect,  // answer with ShardCore::OnConnected or OnConnectFailed
  };
  Kind kind = Kind::kSend;
  transport::ConnectionId connection;  // kSend, kClose
  wire::Frame frame;                   // kSend
  // kConnect: to where the job's shard, which lies here, lies a second time.
  std::string address = {};
  JobId job = {};
  ShardId shard = {};
};

}  // namespace strata::server

#endif  // STRATA_SERVER_SHARD_FRAMES_SHARD_ACTION_H_

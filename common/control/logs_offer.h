#ifndef STRATA_COMMON_CONTROL_LOGS_OFFER_H_
#define STRATA_COMMON_CONTROL_LOGS_OFFER_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "proto/logs.pb.h"

namespace grpc {
class Channel;
}  // namespace grpc

namespace strata::control {

// Reads logs for one stream. Threads: one.
class LogsSource {
 public:
  struct Step {
    std::optional<proto::LogPart> part = {};
    bool goes_on = false;  // there may be more at once
  };

  virtual ~LogsSource() = default;
  virtual void OnWanted(const proto::LogWanted& wanted) = 0;
  // Returns the next message, if one may be sent. Must not block.
  virtual Step Next() = 0;
  // Returns whether Next may have more later without further requests: a log is followed.
  virtual bool Watches() const = 0;
};

// A worker's stream of logs to the coordinator, beside the session's on the same connection. Little
// of it is in flight at any time, so that no heartbeat waits behind logs.
//
// Threads: OnLine from any; Stop and destruction from one. It reads and writes on two of its own.
class LogsOffer {
 public:
  // Limit of unconfirmed bytes: at most this and one part are in flight.
  static constexpr size_t kUnderWayBytesMax = 192 << 10;

  struct Options {
    std::string worker;  // worker name
    // Creates the reader for one stream; called on the offer's thread.
    std::function<std::unique_ptr<LogsSource>()> new_source;
  };

  virtual ~LogsOffer() = default;  // stops
  static std::unique_ptr<LogsOffer> Start(Options options);
  // See Session::Callbacks::on_line: the stream is opened on this connection, and ends with it.
  virtual void OnLine(std::shared_ptr<grpc::Channel> line) = 0;
  // Idempotent. OnLine has no effect afterwards.
  virtual void Stop() = 0;
};

}  // namespace strata::control

#endif  // STRATA_COMMON_CONTROL_LOGS_OFFER_H_

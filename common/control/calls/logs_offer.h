#ifndef STRATA_COMMON_CONTROL_CALLS_LOGS_OFFER_H_
#define STRATA_COMMON_CONTROL_CALLS_LOGS_OFFER_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "common/control/credentials.h"
#include "proto/logs.pb.h"

namespace strata::control {

// What reads logs for one stream. Threads: one.
class LogsSource {
 public:
  struct Step {
    std::optional<proto::LogPart> part = {};
    bool goes_on = false;  // there may be more at once
  };

  virtual ~LogsSource() = default;
  virtual void OnWanted(const proto::LogWanted& wanted) = 0;
  // What comes next, if anything may be sent. May not wait for anything.
  virtual Step Next() = 0;
  // Whether Next may have something later though nothing else is wanted: a log is followed.
  virtual bool Watches() const = 0;
};

// A worker's stream of logs to the coordinator: a connection of its own, beside the session, so
// that no log delays a heartbeat. It is opened again after each break, for as long as this lives.
//
// Threads: Stop and destruction from one; it reads and writes on two of its own.
class LogsOffer {
 public:
  struct Options {
    std::string coordinator;  // as Session's
    Credentials credentials = {};
    std::string worker;  // its name
    // Makes what reads for one stream; called on the offer's thread.
    std::function<std::unique_ptr<LogsSource>()> new_source;
  };

  virtual ~LogsOffer() = default;  // stops
  // Begins at once.
  static std::unique_ptr<LogsOffer> Start(Options options);
  // Idempotent.
  virtual void Stop() = 0;
};

}  // namespace strata::control

#endif  // STRATA_COMMON_CONTROL_CALLS_LOGS_OFFER_H_

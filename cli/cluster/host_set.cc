#include "cli/cluster/host_set.h"

#include <signal.h>

#include <utility>

#include "absl/strings/str_cat.h"

namespace strata::cli {

class HostSet::Daemon : public RunningDaemon {
 public:
  Daemon(HostSet* set, std::string title) : set_(set), title_(std::move(title)) {}
  ~Daemon() override {
    Signal(SIGKILL);
    set_->running_.erase(title_);
  }
  void Signal(int signal) override {
    const auto found = set_->running_.find(title_);
    if (found == set_->running_.end()) return;
    HostMessage message;
    message.kind = HostMessage::Kind::kSignal;
    message.title = title_;
    message.signal = signal;
    set_->connections_.at(found->second.host)->Send(message);
  }

 private:
  HostSet* set_;
  const std::string title_;
};

HostSet::HostSet(EventLoop* loop, Options options)
    : loop_(loop), timers_(loop), options_(std::move(options)) {}

HostSet::~HostSet() = default;

void HostSet::Connect(std::function<void(std::vector<std::string>)> done) {
  connected_ = std::move(done);
  for (const Host& host : options_.hosts) waiting_.insert(host.name);
  for (const Host& host : options_.hosts) {
    HostConnection::Options options;
    options.destination = host.destination;
    options.ssh = options_.ssh;
    options.binary = options_.binary;
    options.version = options_.version;
    options.host_args = {"--logs",      options_.log_dir,
                         "--log-level", options_.log_level,
                         "--silence",   absl::StrCat(absl::ToDoubleSeconds(options_.silence_max))};
    const std::string name = host.name;
    auto connection = std::make_unique<HostConnection>(
        loop_, std::move(options),
        HostConnection::Events{[this, name](const absl::Status& status) { OnAnswer(name, status); },
                               [this](const HostMessage& message) { OnMessage(message); },
                               [this, name](const std::string& why) { OnHostLost(name, why); }});
    HostConnection* added = connection.get();
    connections_[name] = std::move(connection);
    added->Start();
  }
  timers_.After(options_.answer_deadline, [this] { OnAnswerDeadline(); });
  timers_.After(options_.alive_interval, [this] { SayAlive(); });
}

void HostSet::OnAnswer(const std::string& host, const absl::Status& status) {
  waiting_.erase(host);
  if (!status.ok()) {
    failures_.push_back(absl::StrCat("host ", host, ": ", std::string(status.message())));
  }
  if (waiting_.empty() && connected_ != nullptr) std::exchange(connected_, nullptr)(failures_);
  CloseIfDone();
}

void HostSet::OnAnswerDeadline() {
  const auto waiting = waiting_;  // each refusal changes it
  for (const std::string& host : waiting) {
    connections_.at(host)->Refuse(
        absl::StrCat("no answer within ", absl::FormatDuration(options_.answer_deadline)));
  }
}

void HostSet::SayAlive() {
  for (auto& [host, connection] : connections_) connection->Send(HostMessage());
  timers_.After(options_.alive_interval, [this] { SayAlive(); });
}

absl::StatusOr<std::unique_ptr<RunningDaemon>> HostSet::Start(const DaemonSpec& spec,
                                                              Events events) {
  const auto connection = connections_.find(spec.host);
  if (connection == connections_.end() || connection->second->ended()) {
    return absl::UnavailableError(absl::StrCat("no connection to host ", spec.host));
  }
  running_[spec.title] = {spec.host, std::move(events)};
  HostMessage message;
  message.kind = HostMessage::Kind::kStart;
  message.title = spec.title;
  message.args = spec.args;
  message.keys = spec.keys;
  connection->second->Send(message);
  return std::make_unique<Daemon>(this, spec.title);
}

void HostSet::OnMessage(const HostMessage& message) {
  if (message.kind == HostMessage::Kind::kEnded) return OnDaemonEnd(message.title, message.text);
  const auto found = running_.find(message.title);
  if (found == running_.end() || message.kind != HostMessage::Kind::kReady) return;
  const Events events = found->second.events;  // they may change running_
  events.on_ready(message.text);
}

void HostSet::OnDaemonEnd(const std::string& title, const std::string& why) {
  const auto found = running_.find(title);
  if (found == running_.end()) return;
  const Events events = std::move(found->second.events);
  running_.erase(found);
  events.on_end(why);
}

void HostSet::OnHostLost(const std::string& host, const std::string& why) {
  std::vector<std::string> titles;
  for (const auto& [title, running] : running_) {
    if (running.host == host) titles.push_back(title);
  }
  for (const std::string& title : titles) {
    OnDaemonEnd(title, absl::StrCat("the connection to host ", host, " is lost: ", why));
  }
  CloseIfDone();
}

void HostSet::Close(std::function<void()> done) {
  connected_ = nullptr;
  closed_ = std::move(done);
  for (auto& [host, connection] : connections_) connection->CloseInput();
  timers_.After(options_.close_deadline, [this] {
    for (auto& [host, connection] : connections_) connection->Kill();
  });
  CloseIfDone();
}

void HostSet::CloseIfDone() {
  for (const auto& [host, connection] : connections_) {
    if (!connection->ended()) return;
  }
  if (closed_ != nullptr) std::exchange(closed_, nullptr)();
}

}  // namespace strata::cli

#include "cli/cluster/host_set.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace strata::cli {

namespace {

constexpr char kVersionPrefix[] = "strata ";
// Exit statuses: ssh could not connect; the shell could not run the program.
constexpr int kExitNoConnection = 255;
constexpr int kExitCannotRun = 126;
constexpr int kExitNotFound = 127;

// One word of a shell's command line; a leading ~/ stays for the shell there to expand.
std::string Quoted(const std::string& word) {
  const size_t begin = absl::StartsWith(word, "~/") ? 2 : 0;
  std::string quoted = word.substr(0, begin) + "'";
  for (char c : word.substr(begin)) {
    quoted += c == '\'' ? "'\\''" : std::string(1, c);
  }
  return quoted + "'";
}

// The last line that says something; ssh ends its own with a carriage return.
std::string LastLine(int fd) {
  constexpr off_t kTailBytes = 4096;
  struct stat info = {};
  if (fstat(fd, &info) != 0) return "";
  std::string text(kTailBytes, '\0');
  const off_t from = std::max<off_t>(0, info.st_size - kTailBytes);
  const ssize_t got = pread(fd, text.data(), text.size(), from);
  text.resize(got > 0 ? static_cast<size_t>(got) : 0);
  std::string last;
  for (const std::string& line : std::vector<std::string>(absl::StrSplit(text, '\n'))) {
    std::string stripped(absl::StripAsciiWhitespace(line));
    if (!stripped.empty()) last = stripped;
  }
  return std::string(absl::StripPrefix(last, "strata: error: "));
}

}  // namespace

HostConnection::HostConnection(EventLoop* loop, Options options, Events events)
    : loop_(loop), options_(std::move(options)), events_(std::move(events)) {}

HostConnection::~HostConnection() {
  if (output_.has_value()) loop_->Unwatch(output_->fd());
  if (process_ != nullptr) loop_->Unwatch(process_->pid_fd());
}

void HostConnection::Start() {
  absl::Status status = StartProcess();
  if (!status.ok()) Answer(status);
}

absl::Status HostConnection::StartProcess() {
  int input[2], output[2];
  // A socket: unlike a pipe, writing to a closed one need not raise a signal.
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, input) != 0) {
    return absl::ErrnoToStatus(errno, "cannot make a socket pair");
  }
  input_ = UniqueFd(input[0]);
  UniqueFd their_input(input[1]);
  if (pipe2(output, O_CLOEXEC) != 0) return absl::ErrnoToStatus(errno, "cannot make a pipe");
  output_.emplace(UniqueFd(output[0]));
  UniqueFd their_output(output[1]);
  errors_ = UniqueFd(memfd_create("ssh-errors", MFD_CLOEXEC));
  if (!errors_.valid()) return absl::ErrnoToStatus(errno, "cannot make a memory file");

  const std::string binary = Quoted(options_.binary);
  std::string command = absl::StrCat(binary, " --version && exec ", binary, " host");
  for (const std::string& arg : options_.host_args) absl::StrAppend(&command, " ", Quoted(arg));
  Process::Spec spec;
  spec.args = {
      "sh",   "-c", absl::StrCat("exec ", options_.ssh, " \"$@\""), "sh", options_.destination,
      command};
  spec.stdin_fd = their_input.get();
  spec.stdout_fd = their_output.get();
  spec.log_path = absl::StrCat("/proc/self/fd/", errors_.get());
  auto process = Process::Start(spec);
  if (!process.ok()) return process.status();
  process_ = std::move(*process);
  loop_->Watch(output_->fd(), POLLIN, [this](short) { OnOutput(); });
  loop_->Watch(process_->pid_fd(), POLLIN, [this](short) { OnEnd(); });
  return absl::OkStatus();
}

void HostConnection::Send(const HostMessage& message) {
  if (!input_.valid()) return;
  const std::string line = EncodeHostMessage(message) + "\n";
  // A message that does not fit is lost: so is a host that has read nothing for so long.
  [[maybe_unused]] ssize_t sent =
      send(input_.get(), line.data(), line.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

void HostConnection::CloseInput() { input_.Reset(); }

void HostConnection::Kill() {
  if (process_ != nullptr) process_->Signal(SIGKILL);
}

void HostConnection::Refuse(const std::string& why) {
  Answer(absl::UnavailableError(why));
  Kill();
}

void HostConnection::OnOutput() {
  auto lines = output_->Read();
  if (!lines.has_value()) return loop_->Unwatch(output_->fd());
  for (const std::string& line : *lines) OnLine(line);
}

void HostConnection::OnLine(const std::string& line) {
  if (!version_is_good_) {
    // A login shell may print anything before.
    if (!absl::StartsWith(line, kVersionPrefix)) return;
    version_is_good_ = line == options_.version;
    if (version_is_good_) return;
    return Refuse(
        absl::StrCat(options_.binary, " there is ", line, ", this is ", options_.version));
  }
  const auto message = DecodeHostMessage(line);
  if (!message.has_value()) return;
  if (message->kind == HostMessage::Kind::kUp) return Answer(absl::OkStatus());
  if (answered_) events_.on_message(*message);
}

void HostConnection::Answer(const absl::Status& status) {
  if (std::exchange(answered_, true)) return;
  events_.on_answer(status);
}

std::string HostConnection::WhyEnded(const ExitStatus& status) const {
  const std::string last = LastLine(errors_.get());
  const std::string why = last.empty() ? status.ToString() : last;
  if (status.code == kExitNoConnection) return absl::StrCat("cannot be reached: ", why);
  if (status.code == kExitCannotRun || status.code == kExitNotFound) {
    return absl::StrCat("cannot run ", options_.binary, " there (see --binary): ", why);
  }
  return why;
}

void HostConnection::OnEnd() {
  const auto status = process_->TryReap();
  if (!status.has_value()) return;
  loop_->Unwatch(process_->pid_fd());
  // Read the output before the end.
  for (auto lines = output_->Read(); lines.has_value() && !lines->empty();
       lines = output_->Read()) {
    for (const std::string& line : *lines) OnLine(line);
  }
  loop_->Unwatch(output_->fd());
  input_.Reset();
  process_.reset();
  const std::string why = WhyEnded(*status);
  if (!answered_) return Answer(absl::UnavailableError(why));
  events_.on_end(why);
}

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
  if (!Reaches(spec.host)) {
    return absl::UnavailableError(absl::StrCat("no connection to host ", spec.host));
  }
  running_[spec.title] = {spec.host, std::move(events)};
  HostMessage message;
  message.kind = HostMessage::Kind::kStart;
  message.title = spec.title;
  message.args = spec.args;
  message.keys = spec.keys;
  connections_.at(spec.host)->Send(message);
  return std::make_unique<Daemon>(this, spec.title);
}

bool HostSet::Reaches(const std::string& host) const {
  const auto connection = connections_.find(host);
  return connection != connections_.end() && !connection->second->ended();
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

#include "cli/cluster/host_connection.h"

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
// Of ssh: it could not connect. Of a shell: it could not run the program.
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
  // What does not fit is lost: a host that takes nothing for so long is lost, too.
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
  // What it wrote before it ended.
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

}  // namespace strata::cli

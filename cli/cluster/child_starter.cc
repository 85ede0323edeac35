#include "cli/cluster/child_starter.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include <fstream>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "cli/options/line_reader.h"
#include "common/log.h"
#include "common/os/atomic_file.h"
#include "common/os/process.h"
#include "common/os/trusted_file.h"

namespace strata::cli {
namespace {

// A daemon's own words for why it ended, if it left any.
std::string LastError(const std::string& log_path) {
  std::ifstream in(log_path);
  std::string line, last;
  while (std::getline(in, line)) {
    if (!line.empty()) last = line;
  }
  if (const auto json = ReadJsonLogLine(last); json.has_value()) return json->message;
  return std::string(absl::StripPrefix(last, "strata: error: "));
}

constexpr int kKeysFd = 3;

// Creates a file in memory, to be read from its beginning.
absl::StatusOr<UniqueFd> InMemory(const std::string& content) {
  UniqueFd file(memfd_create("strata-keys", MFD_CLOEXEC));
  size_t written = 0;
  while (file.valid() && written < content.size()) {
    const ssize_t more = write(file.get(), content.data() + written, content.size() - written);
    if (more <= 0) return absl::ErrnoToStatus(errno, "cannot hand keys on");
    written += static_cast<size_t>(more);
  }
  if (!file.valid() || lseek(file.get(), 0, SEEK_SET) != 0) {
    return absl::ErrnoToStatus(errno, "cannot hand keys on");
  }
  return file;
}

class Child : public RunningDaemon {
 public:
  Child(EventLoop* loop, std::unique_ptr<Process> process, UniqueFd out, std::string log_path,
        DaemonStarter::Events events)
      : loop_(loop),
        process_(std::move(process)),
        out_(std::move(out)),
        log_path_(std::move(log_path)),
        events_(std::move(events)) {
    loop_->Watch(out_.fd(), POLLIN, [this](short) { OnOutput(); });
    loop_->Watch(process_->pid_fd(), POLLIN, [this](short) { OnEnd(); });
  }

  ~Child() override {
    loop_->Unwatch(out_.fd());
    loop_->Unwatch(process_->pid_fd());
  }

  void Signal(int signal) override { process_->Signal(signal); }

 private:
  void OnOutput() {
    auto lines = out_.Read();
    if (!lines.has_value()) return loop_->Unwatch(out_.fd());
    for (const std::string& line : *lines) {
      if (said_ready_ || !absl::StrContains(line, " ready ")) continue;
      said_ready_ = true;
      events_.on_ready(line);
    }
  }

  void OnEnd() {
    auto status = process_->TryReap();
    if (!status.has_value()) return;
    loop_->Unwatch(process_->pid_fd());
    std::string why = status->signal == 0 ? LastError(log_path_) : "";
    events_.on_end(why.empty() ? status->ToString() : why);
  }

  EventLoop* loop_;
  std::unique_ptr<Process> process_;
  LineReader out_;
  const std::string log_path_;
  const DaemonStarter::Events events_;
  bool said_ready_ = false;
};

}  // namespace

ChildStarter::ChildStarter(EventLoop* loop, Options options)
    : loop_(loop), options_(std::move(options)) {}

absl::StatusOr<std::unique_ptr<RunningDaemon>> ChildStarter::Start(const DaemonSpec& spec,
                                                                   Events events) {
  int out[2];
  if (pipe2(out, O_CLOEXEC) != 0) return absl::ErrnoToStatus(errno, "cannot make a pipe");
  UniqueFd read_end(out[0]), write_end(out[1]);
  std::string file = spec.title;
  for (char& c : file) c = c == ' ' || c == '/' ? '-' : c;
  Process::Spec process_spec;
  process_spec.executable = options_.binary;
  process_spec.args = spec.args;
  process_spec.args.insert(process_spec.args.begin(), "strata");
  if (auto host = options_.enter.find(spec.host); host != options_.enter.end()) {
    process_spec.args[0] = options_.binary;
    process_spec.executable = host->second[0];
    process_spec.args.insert(process_spec.args.begin(), host->second.begin(), host->second.end());
  }
  process_spec.args.insert(process_spec.args.end(), {"--log-level", options_.log_level});
  process_spec.log_path = absl::StrCat(options_.log_dir, "/", file, ".log");
  process_spec.stdout_fd = write_end.get();
  UniqueFd keys;
  if (!spec.keys.empty()) {
    absl::StatusOr<UniqueFd> made = InMemory(spec.keys);
    if (!made.ok()) return made.status();
    keys = *std::move(made);
    process_spec.descriptors.push_back({keys.get(), kKeysFd});
    process_spec.args.insert(process_spec.args.end(), {"--keys-fd", absl::StrCat(kKeysFd)});
  }
  auto process = Process::Start(process_spec);
  if (!process.ok()) return process.status();
  return std::make_unique<Child>(loop_, std::move(*process), std::move(read_end),
                                 process_spec.log_path, std::move(events));
}

absl::Status MakeWritableDirectory(const std::string& dir) {
  absl::Status status = MakeOwnFolders(dir);
  if (status.ok() && access(dir.c_str(), W_OK | X_OK) != 0) status = FileError(errno, dir);
  if (status.ok()) return status;
  return absl::FailedPreconditionError(
      absl::StrCat("cannot write to directory ", status.message()));
}

}  // namespace strata::cli

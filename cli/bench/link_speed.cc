#include "cli/bench/link_speed.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/os/interfaces.h"
#include "common/os/process.h"
#include "common/unique_fd.h"

namespace strata::cli {
namespace {

constexpr absl::Duration kStartDeadline = absl::Seconds(10);
constexpr int kMsPerSecond = 1000;
constexpr absl::Duration kRetry = absl::Milliseconds(100);

// iperf3's default port.
constexpr uint16_t kIperfPort = 5201;

absl::StatusOr<std::unique_ptr<Process>> StartOn(const Enter& host, std::vector<std::string> args,
                                                 int stdout_fd) {
  args.insert(args.begin(), host.begin(), host.end());
  return Process::Start({.args = args, .executable = args[0], .stdout_fd = stdout_fd});
}

std::string ContentOf(int fd) {
  std::string text(lseek(fd, 0, SEEK_END), '\0');
  const ssize_t read = pread(fd, text.data(), text.size(), 0);
  text.resize(read > 0 ? read : 0);
  return text;
}

absl::StatusOr<LinkSpeed> Read(const std::string& report) {
  const auto json = nlohmann::json::parse(report, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return absl::UnavailableError("iperf3: no report");
  if (json.contains("error")) {
    return absl::UnavailableError(absl::StrCat("iperf3: ", json["error"].get<std::string>()));
  }
  const auto end = json.value("end", nlohmann::json::object());
  const auto received = end.value("sum_received", nlohmann::json::object());
  return LinkSpeed{received.value("bits_per_second", 0.0) / 8,
                   end.value("sender_tcp_congestion", std::string("unknown"))};
}

}  // namespace

absl::StatusOr<LinkSpeed> MeasureLink(const Enter& from, const Enter& to,
                                      const std::string& address, int seconds) {
  const std::string port = absl::StrCat(FreePort().value_or(kIperfPort));
  UniqueFd out(memfd_create("iperf3-server", MFD_CLOEXEC));
  auto server = StartOn(to, {"iperf3", "-s", "-1", "-p", port}, out.get());
  if (!server.ok()) return server.status();
  // It says that it cannot connect until the server listens.
  const absl::Time deadline = absl::Now() + kStartDeadline;
  const auto longest_ms =
      static_cast<int>(absl::ToInt64Milliseconds(kStartDeadline)) + kMsPerSecond * (seconds + 1);
  while (true) {
    UniqueFd report(memfd_create("iperf3-client", MFD_CLOEXEC));
    auto client = StartOn(
        from, {"iperf3", "-J", "-c", address, "-p", port, "-t", absl::StrCat(seconds), "-O", "1"},
        report.get());
    if (!client.ok()) return client.status();
    pollfd ended = {(*client)->pid_fd(), POLLIN, 0};
    if (poll(&ended, 1, longest_ms) == 0) {
      return absl::UnavailableError("iperf3 does not come to an end");
    }
    absl::StatusOr<LinkSpeed> speed = Read(ContentOf(report.get()));
    if (speed.ok() || absl::Now() > deadline) return speed;
    absl::SleepFor(kRetry);
  }
}

}  // namespace strata::cli

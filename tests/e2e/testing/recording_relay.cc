#include "tests/e2e/testing/recording_relay.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace strata::tests {
namespace {

sockaddr_in AddressOf(const std::string& host, int port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  EXPECT_EQ(inet_pton(AF_INET, host.c_str(), &address.sin_addr), 1) << host;
  return address;
}

UniqueFd Listener(const std::string& host, int port) {
  UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_in address = AddressOf(host, port);
  EXPECT_EQ(bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0)
      << host << ":" << port;
  EXPECT_EQ(listen(fd.get(), 64), 0);
  return fd;
}

}  // namespace

RecordingRelay::RecordingRelay(int to, const Options& options)
    : to_(to),
      options_(options),
      listener_(Listener(options.host, options.port)),
      stop_(*EventFd::Create()),
      thread_([this] { Run(); }) {}

RecordingRelay::~RecordingRelay() {
  stop_.Notify();
  thread_.join();
}

std::string RecordingRelay::address() const {
  sockaddr_in address = {};
  socklen_t size = sizeof address;
  getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size);
  return absl::StrCat(options_.host, ":", ntohs(address.sin_port));
}

std::vector<std::string> RecordingRelay::said() {
  absl::MutexLock lock(&mutex_);
  return said_;
}

std::vector<std::string> RecordingRelay::answered() {
  absl::MutexLock lock(&mutex_);
  return answered_;
}

bool RecordingRelay::CutOldest() {
  absl::MutexLock lock(&mutex_);
  return !lines_.empty() && shutdown(lines_.front()->from.get(), SHUT_RDWR) == 0;
}

void RecordingRelay::Accept() {
  auto line = std::make_shared<Line>();
  line->from = UniqueFd(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  line->to = UniqueFd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_in address = AddressOf("127.0.0.1", to_);
  const auto* there = reinterpret_cast<const sockaddr*>(&address);
  if (connect(line->to.get(), there, sizeof address) != 0) return;
  absl::MutexLock lock(&mutex_);
  line->index = said_.size();
  said_.emplace_back();
  answered_.emplace_back();
  lines_.push_back(std::move(line));
}

bool RecordingRelay::Pass(Line* line, bool forwards) {
  const int in = forwards ? line->from.get() : line->to.get();
  const int out = forwards ? line->to.get() : line->from.get();
  char block[16384];
  const ssize_t got = recv(in, block, sizeof block, 0);
  if (got <= 0) return false;
  const auto bytes = static_cast<size_t>(got);
  {
    absl::MutexLock lock(&mutex_);
    std::string& heard = (forwards ? said_ : answered_)[line->index];
    heard.append(block, std::min(bytes, options_.recorded_max - heard.size()));
  }
  uint64_t& passed = forwards ? line->passed_there : line->passed_back;
  if (options_.change) options_.change({line->index, forwards, passed}, block, bytes);
  passed += bytes;
  for (size_t sent = 0; sent < bytes;) {
    const ssize_t more = send(out, block + sent, bytes - sent, MSG_NOSIGNAL);
    if (more <= 0) return false;
    sent += static_cast<size_t>(more);
  }
  return true;
}

void RecordingRelay::Run() {
  while (true) {
    std::vector<std::shared_ptr<Line>> lines;
    {
      absl::MutexLock lock(&mutex_);
      lines = lines_;
    }
    std::vector<pollfd> fds = {{stop_.fd(), POLLIN, 0}, {listener_.get(), POLLIN, 0}};
    for (const auto& line : lines) {
      fds.push_back({line->from.get(), POLLIN, 0});
      fds.push_back({line->to.get(), POLLIN, 0});
    }
    if (poll(fds.data(), fds.size(), -1) < 0) continue;
    if (fds[0].revents != 0) return;
    for (size_t i = 0; i < lines.size(); ++i) {
      const bool ends = (fds[2 + 2 * i].revents != 0 && !Pass(lines[i].get(), true)) ||
                        (fds[3 + 2 * i].revents != 0 && !Pass(lines[i].get(), false));
      absl::MutexLock lock(&mutex_);
      if (ends) std::erase(lines_, lines[i]);
    }
    if (fds[1].revents != 0) Accept();
  }
}

}  // namespace strata::tests

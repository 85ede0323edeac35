#include "common/transport/region_host.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/log.h"
#include "common/os/descriptors.h"

namespace strata::transport {
namespace {

// Time for a visitor to greet and to claim.
constexpr absl::Duration kPatience = absl::Seconds(10);

}  // namespace

absl::Status RegionHost::Open(int port) {
  absl::StatusOr<UniqueFd> listener = ListenForRegions(port);
  if (!listener.ok()) return listener.status();
  UniqueFd watch(epoll_create1(EPOLL_CLOEXEC));
  epoll_event event = {.events = EPOLLIN, .data = {.fd = listener->get()}};
  if (!watch.valid() || epoll_ctl(watch.get(), EPOLL_CTL_ADD, listener->get(), &event) != 0) {
    return absl::ResourceExhaustedError(absl::StrCat("epoll: ", strerror(errno)));
  }
  port_ = port;
  listener_ = *std::move(listener);
  watch_ = std::move(watch);
  return absl::OkStatus();
}

void RegionHost::Admit(UniqueFd line, absl::Time now) {
  const size_t lines = visitors_.size() + greeted_.size() + claimed_.size() + retired_.size();
  if (lines >= kRegionPeersMax) {
    if (!has_said_full_) {
      LogWarning(
          "port %d: %d connections of this host share memory, no more can; payloads of others go "
          "over TCP",
          port_, lines);
    }
    has_said_full_ = true;
    return;
  }
  const int fd = line.get();
  epoll_event event = {.events = EPOLLIN, .data = {.fd = fd}};
  if (epoll_ctl(watch_.get(), EPOLL_CTL_ADD, fd, &event) != 0) return;
  visitors_[fd] = {std::make_unique<RegionSession>(std::move(line)), now + kPatience};
}

void RegionHost::Serve(absl::Time now) {
  if (!watch_.valid()) return;
  std::array<epoll_event, 16> events = {};
  const int count = epoll_wait(watch_.get(), events.data(), events.size(), 0);
  for (int i = 0; i < count; ++i) {
    const int fd = events[i].data.fd;
    if (fd == listener_.get()) {
      for (UniqueFd line = AcceptForRegions(listener_); line.valid();
           line = AcceptForRegions(listener_)) {
        Admit(std::move(line), now);
      }
      continue;
    }
    const auto it = visitors_.find(fd);
    if (it == visitors_.end()) continue;
    const bool is_well = it->second.session->Hear().ok();
    if (is_well && !it->second.session->has_met()) continue;
    epoll_ctl(watch_.get(), EPOLL_CTL_DEL, fd, nullptr);
    Visitor visitor = std::move(it->second);
    visitors_.erase(it);
    // A second visitor with the same number is a stranger that has overheard it.
    if (is_well) greeted_.try_emplace(visitor.session->number(), std::move(visitor));
  }
  const auto is_late = [now](const auto& entry) { return entry.second.until < now; };
  absl::erase_if(visitors_, is_late);
  absl::erase_if(greeted_, is_late);
}

std::unique_ptr<RegionSession> RegionHost::Claim(uint64_t number) {
  auto entry = greeted_.extract(number);
  if (entry.empty()) return nullptr;
  claimed_.insert(entry.mapped().session.get());
  return std::move(entry.mapped().session);
}

void RegionHost::Retire(std::unique_ptr<RegionSession> session) {
  if (session == nullptr) return;
  claimed_.erase(session.get());
  session->Leave();
  retired_.push_back(std::move(session));
  Sweep();
}

void RegionHost::Sweep() {
  const auto over = [](const std::unique_ptr<RegionSession>& session) {
    session->Sweep();
    return session->IsOver();
  };
  retired_.erase(std::remove_if(retired_.begin(), retired_.end(), over), retired_.end());
}

}  // namespace strata::transport

#include "tests/netns/packet_capture.h"

#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <optional>
#include <utility>

namespace strata::tests {
namespace {

constexpr int kQueueBytes = 64 << 20;
constexpr uint64_t kKeptBytesMax = uint64_t{256} << 20;
// The kernel hands packets over before it cuts them to what a cable takes.
constexpr size_t kPacketBytesMax = 1 << 17;

struct Segment {
  std::string connection;  // both addresses and both ports, as they stand in the packet
  std::string payload;
};

// Ethernet without tags, IPv4, TCP; null: something else.
std::optional<Segment> SegmentOf(const std::string& packet) {
  const auto at = [&](size_t i) { return static_cast<uint8_t>(packet[i]); };
  constexpr size_t kIp = ETH_HLEN, kIpBytesMin = 20, kTcpBytesMin = 20;
  if (packet.size() < kIp + kIpBytesMin || at(12) != 0x08 || at(13) != 0x00) return std::nullopt;
  const size_t tcp = kIp + 4 * (at(kIp) & 0x0f);
  if (at(kIp + 9) != IPPROTO_TCP || packet.size() < tcp + kTcpBytesMin) return std::nullopt;
  const size_t payload = tcp + 4 * (at(tcp + 12) >> 4);
  return Segment{packet.substr(kIp + 12, 8) + packet.substr(tcp, 4),
                 packet.substr(std::min(payload, packet.size()))};
}

}  // namespace

absl::StatusOr<std::unique_ptr<PacketCapture>> PacketCapture::Start() {
  UniqueFd fd(socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, htons(ETH_P_ALL)));
  if (!fd.valid()) return absl::ErrnoToStatus(errno, "a socket of all packets");
  // Beyond the machine's limit it takes a right that a user's own network does not give.
  if (setsockopt(fd.get(), SOL_SOCKET, SO_RCVBUFFORCE, &kQueueBytes, sizeof kQueueBytes) != 0) {
    setsockopt(fd.get(), SOL_SOCKET, SO_RCVBUF, &kQueueBytes, sizeof kQueueBytes);
  }
  absl::StatusOr<EventFd> stop = EventFd::Create();
  if (!stop.ok()) return stop.status();
  return std::unique_ptr<PacketCapture>(new PacketCapture(std::move(fd), *std::move(stop)));
}

PacketCapture::PacketCapture(UniqueFd socket, EventFd stop)
    : socket_(std::move(socket)),
      stop_(std::move(stop)),
      buffer_(kPacketBytesMax, '\0'),
      thread_([this] { Run(); }) {}

PacketCapture::~PacketCapture() {
  stop_.Notify();
  thread_.join();
}

void PacketCapture::Run() {
  pollfd fds[] = {{stop_.fd(), POLLIN, 0}, {socket_.get(), POLLIN, 0}};
  while (fds[0].revents == 0) {
    if (poll(fds, 2, -1) < 0) fds[0].revents = 0;
    Read();
  }
}

void PacketCapture::Read() {
  while (true) {
    sockaddr_ll from = {};
    socklen_t size = sizeof from;
    const ssize_t got = recvfrom(socket_.get(), buffer_.data(), buffer_.size(), 0,
                                 reinterpret_cast<sockaddr*>(&from), &size);
    if (got < 0) return;
    // The switch hands it on by another cable, where it would be heard once more.
    if (from.sll_pkttype == PACKET_OUTGOING) continue;
    absl::MutexLock lock(&mutex_);
    if (bytes_ + got > kKeptBytesMax) {
      ++lost_;
      continue;
    }
    bytes_ += got;
    packets_.push_back(buffer_.substr(0, got));
  }
}

std::vector<std::string> PacketCapture::Take() {
  absl::MutexLock lock(&mutex_);
  bytes_ = 0;
  return std::exchange(packets_, {});
}

uint64_t PacketCapture::lost() {
  tpacket_stats stats = {};  // since they were asked for last
  socklen_t size = sizeof stats;
  absl::MutexLock lock(&mutex_);
  if (getsockopt(socket_.get(), SOL_PACKET, PACKET_STATISTICS, &stats, &size) == 0) {
    lost_ += stats.tp_drops;
  }
  return lost_;
}

std::vector<std::string> StreamsOf(const std::vector<std::string>& packets) {
  std::map<std::string, std::string> said;  // by connection and direction
  std::vector<std::string> streams;
  for (const std::string& packet : packets) {
    if (std::optional<Segment> segment = SegmentOf(packet)) {
      said[segment->connection] += segment->payload;
    } else {
      streams.push_back(packet);
    }
  }
  for (auto& [connection, stream] : said) streams.push_back(std::move(stream));
  return streams;
}

}  // namespace strata::tests

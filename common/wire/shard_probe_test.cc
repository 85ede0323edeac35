#include "common/wire/shard_probe.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/event_fd.h"
#include "common/os/limits.h"
#include "common/os/process_use.h"
#include "common/transport/zmq/zmq_endpoint.h"
#include "common/unique_fd.h"
#include "gtest/gtest.h"

namespace strata::net {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(20);

std::map<std::string, std::string> Probe(const std::vector<std::string>& addresses,
                                         absl::Duration timeout = kPatience) {
  std::map<std::string, std::string> errors;
  ProbeShards(addresses, timeout, -1, [&](std::vector<ProbeResult> results) {
    for (const ProbeResult& result : results) {
      EXPECT_TRUE(errors.emplace(result.address, result.error).second) << "told twice";
    }
  });
  return errors;
}

// A TCP socket on a free port of loopback that listens, or only reserves the port.
struct Port {
  explicit Port(bool listens) : fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    EXPECT_EQ(bind(fd.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
    if (listens) {
      EXPECT_EQ(listen(fd.get(), 4), 0);
    }
    EXPECT_EQ(getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
    text = absl::StrCat("tcp://127.0.0.1:", ntohs(address.sin_port));
  }
  UniqueFd fd;
  std::string text;
};

std::string ErrorOf(const std::string& address, absl::Duration timeout = kPatience) {
  const auto errors = Probe({address}, timeout);
  EXPECT_EQ(errors.size(), 1u);
  return errors.count(address) == 0 ? "no result" : errors.at(address);
}

TEST(ShardProbe, AnEndpointIsReachedAndHearsOfNobody) {
  auto endpoint = *transport::CreateZmqEndpoint(transport::ZmqOptions());
  const std::string address =
      absl::StrCat("tcp://127.0.0.1:", *endpoint->Listen("tcp://127.0.0.1:0"));
  EXPECT_EQ(ErrorOf(address), "");
  std::vector<transport::Event> events;
  const absl::Time deadline = absl::Now() + absl::Seconds(20);
  do {
    endpoint->Poll(absl::Milliseconds(300), &events);
  } while (endpoint->use().connections > 0 && absl::Now() < deadline);
  endpoint->Poll(absl::Milliseconds(300), &events);
  EXPECT_TRUE(events.empty()) << "a connection without a frame is none";
  EXPECT_EQ(endpoint->use().silent, 0u) << "a probe is nobody who speaks another protocol";
}

TEST(ShardProbe, ManyAddressesAreTriedAtOnceAndEachIsToldOnce) {
  auto endpoint = *transport::CreateZmqEndpoint(transport::ZmqOptions());
  const std::string good = absl::StrCat("tcp://127.0.0.1:", *endpoint->Listen("tcp://127.0.0.1:0"));
  const Port silent(/*listens=*/true), closed(/*listens=*/false);
  const auto errors = Probe({closed.text, good, silent.text}, absl::Milliseconds(500));
  EXPECT_EQ(errors, (std::map<std::string, std::string>{
                        {good, ""},
                        {closed.text, "connection refused"},
                        {silent.text, "it took the connection, but has not answered for 500ms"}}));
}

TEST(ShardProbe, NoMoreThanAFewSocketsAreOpenAtATime) {
  const Port silent(/*listens=*/true);
  // One port under many names, whose connections nobody accepts.
  std::vector<std::string> addresses;
  for (int i = 0; i < 150; ++i) addresses.push_back(silent.text + std::string(i, ' '));
  const uint64_t before = MeasureUse().descriptors;
  std::atomic<bool> done = false;
  uint64_t most = 0;
  std::thread watch([&] {
    while (!done) most = std::max(most, MeasureUse().descriptors);
  });
  EXPECT_EQ(Probe(addresses, absl::Milliseconds(300)).size(), 150u);
  done = true;
  watch.join();
  EXPECT_LE(most, before + kProbesMax + 1);  // and the folder that is read
}

TEST(ShardProbe, WhatIsNoAddressOrNoHostIsSaid) {
  EXPECT_EQ(ErrorOf("127.0.0.1:7100"), "the address is not tcp://HOST:PORT");
  EXPECT_EQ(ErrorOf("tcp://127.0.0.1"), "the address is not tcp://HOST:PORT");
  EXPECT_EQ(ErrorOf("tcp://:80"), "the address is not tcp://HOST:PORT");
  EXPECT_EQ(ErrorOf("tcp://127.0.0.1:0"), "the address is not tcp://HOST:PORT");
  EXPECT_EQ(ErrorOf("tcp://no-such-host.invalid:80").find("host \"no-such-host.invalid\""), 0u);
}

// Answers one connection with these bytes, then closes it; returns the probe's error.
std::string ErrorOfAnswer(const std::string& bytes) {
  const Port port(/*listens=*/true);
  std::thread server([&] {
    const UniqueFd peer(accept(port.fd.get(), nullptr, nullptr));
    send(peer.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    shutdown(peer.get(), SHUT_WR);
    char ignored[256];
    while (recv(peer.get(), ignored, sizeof(ignored), 0) > 0) {
    }
  });
  const std::string error = ErrorOf(port.text);
  server.join();
  return error;
}

TEST(ShardProbe, SomethingElseThatListensIsNoShard) {
  const std::string foreign = "something listens there, but it is not a shard of a server";
  EXPECT_EQ(ErrorOfAnswer("HTTP/1.0 400 Bad Request\r\n"), foreign);
  EXPECT_EQ(ErrorOfAnswer(std::string(10, '\xff')), foreign);
  EXPECT_EQ(ErrorOfAnswer(""), "the connection was closed at once");
  EXPECT_EQ(ErrorOfAnswer("\xff" + std::string(8, '\0') + "\x7f" + std::string(54, '\0') +
                          "\x04\x0d\x05" + "ERROR......."),
            "it refuses the connection in ZeroMQ's handshake");
}

TEST(ShardProbe, ItEndsAtOnceWhenItIsCancelled) {
  const Port silent(/*listens=*/true);
  const EventFd cancel = *EventFd::Create();
  cancel.Notify();
  ProbeShards({silent.text}, absl::Hours(1), cancel.fd(),
              [](std::vector<ProbeResult>) { FAIL() << "nothing was found out"; });
}

}  // namespace
}  // namespace strata::net

#include "cli/options/address_options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "cli/options/coordinator_address.h"
#include "cli/options/options.h"
#include "common/control/addresses.h"
#include "common/control/coordinator_client.h"
#include "common/control/credentials.h"
#include "common/os/environment.h"
#include "common/os/interfaces.h"
#include "common/os/unix_socket.h"

namespace strata::cli {
namespace {

constexpr uint32_t kCoordinatorPort = 7070;
constexpr absl::Duration kLookUpPause = absl::Milliseconds(200);

absl::StatusOr<net::HostFacts> ThisHost() {
  absl::StatusOr<std::vector<net::Interface>> interfaces = net::ListInterfaces();
  if (!interfaces.ok()) return interfaces.status();
  return net::HostFacts{.interfaces = *std::move(interfaces),
                        .has_interface = net::HasInterface,
                        .resolve = net::Resolve};
}

std::string HostOf(const std::string& address) { return address.substr(0, address.rfind(':')); }

// The address that this host uses towards the coordinator.
absl::StatusOr<net::Ipv4> LookUpSourceTo(const std::string& coordinator) {
  if (UnixPath(coordinator)) return net::Ipv4{0x7f000001};
  const std::string host = HostOf(coordinator);
  if (host == "[::1]") return net::Ipv4{0x7f000001};
  if (host[0] == '[') {
    return absl::InvalidArgumentError(absl::StrCat(
        "--coordinator ", host, ": the data path is IPv4 only; give the coordinator's IPv4 ",
        "address or name"));
  }
  const absl::StatusOr<net::Ipv4> peer = net::Resolve(host);
  if (!peer.ok()) return peer.status();
  return net::SourceTowards(*peer);
}

// Uses the first of several coordinators that has a route.
absl::StatusOr<net::Ipv4> LookUpSource(const std::string& coordinators) {
  absl::StatusOr<net::Ipv4> source = absl::UnavailableError("");
  for (const std::string& coordinator : control::SplitAddresses(coordinators)) {
    source = LookUpSourceTo(coordinator);
    if (source.ok() || absl::IsInvalidArgument(source.status())) break;
  }
  return source;
}

// A coordinator at a port has asked for keys, or for --insecure, before a daemon of it listens. One
// at a socket of this user asks for neither, and may have keys for others.
absl::Status CheckReach(const net::AddressWish& wish, const net::AddressChoice& choice,
                        const std::string& coordinator, const control::Credentials& credentials,
                        absl::Duration deadline) {
  const std::optional<net::Ipv4> listen = net::Ipv4::Parse(choice.listen);
  const bool is_own = listen.has_value() && listen->is_loopback();
  const bool is_said = credentials.kind() != control::Credentials::Kind::kNone;
  if (is_own || is_said || !UnixPath(coordinator)) return absl::OkStatus();
  const auto client =
      control::CoordinatorClient::Create({.coordinator = coordinator, .deadline = deadline});
  const absl::StatusOr<proto::ListNodesReply> cluster = client->ListNodes();
  if (!cluster.ok()) return cluster.status();
  if (absl::StartsWith(cluster->security(), control::kHasKeys)) return absl::OkStatus();
  const std::string option = wish.interface.empty() ? "--listen" : "--interface";
  return absl::FailedPreconditionError(absl::StrCat(
      option, " ", wish.interface.empty() ? wish.listen : wish.interface,
      ": others may reach that, and this cluster has no keys: leave ", option,
      " out, or give the coordinator keys (`strata keys init`); --insecure lets them reach it all "
      "the same"));
}

}  // namespace

void AddInterfaceOption(CLI::App* command, std::string* interface, const std::string& text) {
  command->add_option("--interface", *interface,
                      absl::StrCat(text, ": a name (eth1) or a network (10.0.0.0/24)"));
}

void AddLinkRateOption(CLI::App* command, double* gbit_per_s) {
  command
      ->add_option("--link-rate", *gbit_per_s,
                   "Gbit/s that this host's link carries each way, for the placement of chunks "
                   "(default: the interface's speed, where it is known)")
      ->check(Within(1e-6, 1e6));
}

net::HostLink LinkOfDaemon(const net::AddressChoice& address, double gbit_per_s) {
  const std::optional<net::Ipv4> listen = net::Ipv4::Parse(address.listen);
  const bool is_one = listen.has_value() && !listen->is_wildcard();
  net::HostLink link = net::LinkOfThisHost(is_one ? address.listen : address.advertise);
  if (gbit_per_s > 0) link.bytes_per_s = gbit_per_s * 1e9 / 8;
  return link;
}

absl::StatusOr<PortRange> ParsePortRange(const std::string& text) {
  const size_t dash = text.find('-');
  PortRange range;
  bool good = absl::SimpleAtoi(text.substr(0, dash), &range.first);
  if (dash != std::string::npos)
    good = good && absl::SimpleAtoi(text.substr(dash + 1), &range.last);
  const uint32_t last = dash == std::string::npos ? range.first : range.last;
  if (good && range.first >= 1 && range.first <= last && last <= 65535) return range;
  return absl::InvalidArgumentError(
      absl::StrCat("--port ", text, ": expected a port or a range such as 7100-7119"));
}

absl::StatusOr<net::AddressChoice> ChooseDaemonAddress(const net::AddressWish& wish,
                                                       const std::string& coordinator,
                                                       const control::Credentials& credentials,
                                                       absl::Duration deadline) {
  const absl::Time give_up_at = absl::Now() + deadline;
  absl::StatusOr<net::Ipv4> source = LookUpSource(coordinator);
  while (!source.ok() && !absl::IsInvalidArgument(source.status()) && absl::Now() < give_up_at) {
    absl::SleepFor(std::min(kLookUpPause, give_up_at - absl::Now()));
    source = LookUpSource(coordinator);
  }
  if (absl::IsInvalidArgument(source.status())) return source.status();
  if (!source.ok()) {
    return absl::UnavailableError(
        absl::StrCat("coordinator at ", coordinator, " cannot be reached (tried for ",
                     absl::FormatDuration(deadline), "): ", source.status().message()));
  }
  const absl::StatusOr<net::HostFacts> facts = ThisHost();
  if (!facts.ok()) return facts.status();
  absl::StatusOr<net::AddressChoice> choice =
      net::ChooseAddress(wish, *facts, coordinator, *source);
  if (!choice.ok()) return choice;
  const absl::Status may = CheckReach(wish, *choice, coordinator, credentials, deadline);
  return may.ok() ? choice : may;
}

absl::StatusOr<std::string> ChooseListenAddress(const CoordinatorListen& wish) {
  const bool has_interface = !wish.interface.empty();
  if (wish.address_given && (has_interface || wish.port != 0)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--listen and --", has_interface ? "interface" : "port",
                     " exclude each other: --listen names host and port"));
  }
  if (!has_interface && wish.port == 0) {
    if (!wish.address.empty()) return wish.address;
    std::string named = Variable(OwnEnvironment(), "STRATA_LISTEN");
    if (!named.empty()) return named;
    absl::Status made = MakeCoordinatorFolder();
    return made.ok() ? absl::StatusOr<std::string>(DefaultCoordinator()) : made;
  }
  const std::string port = absl::StrCat(wish.port == 0 ? kCoordinatorPort : wish.port);
  if (!has_interface) return absl::StrCat("127.0.0.1:", port);
  const absl::StatusOr<net::HostFacts> facts = ThisHost();
  if (!facts.ok()) return facts.status();
  const absl::StatusOr<net::Interface> found = net::FindInterface(wish.interface, *facts);
  if (!found.ok()) return found.status();
  return absl::StrCat(found->address.ToString(), ":", port);
}

std::string AddressesOfCoordinator(const std::string& host, const std::string& port) {
  const bool wildcard = host == "0.0.0.0" || host == "*" || host == "[::]";
  absl::StatusOr<net::Ipv4> one = wildcard ? net::Ipv4() : net::Resolve(host);
  absl::StatusOr<std::vector<net::Interface>> interfaces = net::ListInterfaces();
  std::string text;
  if (!one.ok() || !interfaces.ok()) return text;
  for (const net::Interface& interface : *interfaces) {
    if (interface.address.is_loopback()) continue;
    if (!wildcard && interface.address != *one) continue;
    absl::StrAppend(&text, text.empty() ? "" : ", ", interface.address.ToString(), ":", port, " (",
                    interface.name, ")");
  }
  return text;
}

}  // namespace strata::cli

#include "common/os/local_address.h"

#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace strata::net {
namespace {

absl::Status Refuse(const std::string& text) { return absl::InvalidArgumentError(text); }

std::string Show(const Interface& interface) {
  return absl::StrCat(interface.address.ToString(), " (", interface.name, ")");
}

// "this host has 10.0.0.5 (eth0), 192.168.7.2 (eth1)"
std::string ThisHostHas(const HostFacts& facts) {
  const std::string addresses = OtherAddresses(facts.interfaces, Ipv4());
  return addresses.empty() ? "this host has no IPv4 address but loopback"
                           : absl::StrCat("this host has ", addresses);
}

std::string NameOf(Ipv4 address, const HostFacts& facts) {
  for (const Interface& interface : facts.interfaces) {
    if (interface.address == address) return Show(interface);
  }
  return address.is_loopback() ? absl::StrCat(address.ToString(), " (loopback)")
                               : address.ToString();
}

// Parses a user's address without asking a name service.
std::optional<Ipv4> Literal(const std::string& host) {
  if (host == "localhost") return Ipv4{0x7f000001};
  return Ipv4::Parse(host);
}

bool IsWildcard(const std::string& host) { return host == "*" || host == "0.0.0.0"; }

}  // namespace

std::string OtherAddresses(const std::vector<Interface>& interfaces, Ipv4 except) {
  std::string text;
  for (const Interface& interface : interfaces) {
    if (interface.address.is_loopback() || interface.address == except) continue;
    absl::StrAppend(&text, text.empty() ? "" : ", ", Show(interface));
  }
  return text;
}

absl::StatusOr<Interface> FindInterface(const std::string& name_or_network,
                                        const HostFacts& facts) {
  const std::optional<Ipv4Network> network = Ipv4Network::Parse(name_or_network);
  std::vector<Interface> found;
  for (const Interface& interface : facts.interfaces) {
    if (network.has_value() ? network->Contains(interface.address)
                            : interface.name == name_or_network) {
      found.push_back(interface);
    }
  }
  if (found.size() == 1) return found[0];
  const std::string option = absl::StrCat("--interface ", name_or_network, ": ");
  if (found.size() > 1) {
    std::string all;
    for (const Interface& one : found) absl::StrAppend(&all, all.empty() ? "" : ", ", Show(one));
    return Refuse(absl::StrCat(option, "means several addresses: ", all,
                               "; name one, e.g. --interface ", found[0].address.ToString(),
                               "/32"));
  }
  if (network.has_value()) {
    return Refuse(
        absl::StrCat(option, "no address of this host is in that network; ", ThisHostHas(facts)));
  }
  if (name_or_network.find('/') != std::string::npos || Ipv4::Parse(name_or_network).has_value()) {
    return Refuse(absl::StrCat(option, "expected an interface such as eth1 or a network such as ",
                               "10.0.0.0/24"));
  }
  return Refuse(facts.has_interface(name_or_network)
                    ? absl::StrCat(option, "the interface is down or has no IPv4 address; ",
                                   ThisHostHas(facts))
                    : absl::StrCat(option, "no such interface; ", ThisHostHas(facts)));
}

absl::StatusOr<AddressChoice> ChooseAddress(const AddressWish& wish, const HostFacts& facts,
                                            const std::string& coordinator, Ipv4 source) {
  if (!wish.interface.empty() && !wish.listen.empty()) {
    return Refuse("--interface and --listen exclude each other: both say where to listen");
  }
  const bool wildcard = IsWildcard(wish.listen);
  Ipv4 address = source;
  const bool same_host = absl::StartsWith(coordinator, "unix:");
  std::string why =
      same_host ? "the coordinator is on this host"
                : absl::StrCat("the route to the coordinator ", coordinator, " leaves from it");
  if (!wish.interface.empty()) {
    const absl::StatusOr<Interface> found = FindInterface(wish.interface, facts);
    if (!found.ok()) return found.status();
    address = found->address;
    why = absl::StrCat("--interface ", wish.interface);
  } else if (!wish.listen.empty() && !wildcard) {
    absl::StatusOr<Ipv4> found = facts.resolve(wish.listen);
    if (!found.ok()) return Refuse(absl::StrCat("--listen: ", found.status().message()));
    address = *found;
    why = absl::StrCat("--listen ", wish.listen);
  }
  AddressChoice choice;
  choice.listen = wildcard ? "0.0.0.0" : address.ToString();
  choice.advertise = wish.advertise.empty() ? address.ToString() : wish.advertise;
  const std::optional<Ipv4> shown = Literal(choice.advertise);
  if (shown.has_value() && shown->is_wildcard()) {
    return Refuse(absl::StrCat("--advertise ", choice.advertise,
                               ": is no address that a peer can connect to"));
  }
  if (shown.has_value() && shown->is_loopback() && !source.is_loopback()) {
    return Refuse(absl::StrCat(
        wish.advertise.empty() ? why : absl::StrCat("--advertise ", wish.advertise), ": ",
        shown->ToString(), " is a loopback address, which only this host reaches, but the ",
        "coordinator ", coordinator, " is reached from ", source.ToString(), "; ",
        ThisHostHas(facts)));
  }
  const std::string others = OtherAddresses(facts.interfaces, address);
  const bool local_only = shown.has_value() && shown->is_loopback();
  choice.text = absl::StrCat(wildcard ? "listens on all interfaces; " : "", "address ",
                             wish.advertise.empty() ? NameOf(address, facts) : wish.advertise, ": ",
                             wish.advertise.empty() ? why : "--advertise",
                             local_only ? "; other hosts cannot reach it" : "",
                             others.empty() ? "" : absl::StrCat("; this host also has ", others),
                             others.empty() ? "" : ": choose with --interface");
  return choice;
}

}  // namespace strata::net

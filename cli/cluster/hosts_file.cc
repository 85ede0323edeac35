#include "cli/cluster/hosts_file.h"

#include <fstream>
#include <map>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "cli/options/gpu_options.h"

namespace strata::cli {

namespace {

constexpr uint32_t kSlotsMax = 1024;
// As the daemons' --link-rate.
constexpr double kLinkRateMin = 1e-6;
constexpr double kLinkRateMax = 1e6;

// Letters, digits and . _ -, the first one no dash: ssh would take it for an option.
bool IsHostName(const std::string& text) {
  if (text.empty() || text[0] == '-') return false;
  for (char c : text) {
    if (!absl::ascii_isalnum(c) && c != '.' && c != '_' && c != '-') return false;
  }
  return true;
}

absl::Status SetRoles(const std::string& value, Host* host) {
  host->has_role = true;
  for (const std::string& role : std::vector<std::string>(absl::StrSplit(value, ','))) {
    if (role == "coordinator") {
      host->coordinator = true;
    } else if (role == "server") {
      host->server = true;
    } else if (role == "worker") {
      host->worker = true;
    } else if (role == "stand-in") {
      host->stand_in = true;
    } else {
      return absl::InvalidArgumentError(
          absl::StrCat("role \"", role, "\": must be coordinator, server, worker or stand-in"));
    }
  }
  return absl::OkStatus();
}

absl::Status SetCount(const std::string& key, const std::string& value, uint32_t* count) {
  if (absl::SimpleAtoi(value, count) && *count >= 1 && *count <= kSlotsMax) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(key, " \"", value, "\": must be a number from 1 to ", kSlotsMax));
}

absl::Status SetField(const std::string& key, const std::string& value, Host* host) {
  if (key == "role") return SetRoles(value, host);
  if (key == "address") {
    host->address = value;
    if (IsHostName(value)) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("address \"", value, "\": must be a host name or an IPv4 address"));
  }
  if (key == "slots") return SetCount(key, value, &host->slots);
  if (key == "ranks-per-gpu") return SetCount(key, value, &host->ranks_per_gpu);
  if (key == "gpus") {
    host->gpus = value;
    return ParseGpuIndices(value).status();
  }
  if (key == "link-rate") {
    if (absl::SimpleAtod(value, &host->link_gbit_per_s) && host->link_gbit_per_s >= kLinkRateMin &&
        host->link_gbit_per_s <= kLinkRateMax) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(
        absl::StrCat("link-rate \"", value, "\": must be a number of Gbit/s"));
  }
  return absl::InvalidArgumentError(absl::StrCat("unknown field \"", key,
                                                 "\" (slots, role, address, link-rate, gpus and ",
                                                 "ranks-per-gpu are known)"));
}

absl::StatusOr<Host> ParseHost(const std::vector<std::string>& words) {
  Host host;
  host.destination = words[0];
  const size_t at = words[0].find('@');
  host.name = at == std::string::npos ? words[0] : words[0].substr(at + 1);
  host.address = host.name;
  if (!IsHostName(host.name) || (at != std::string::npos && !IsHostName(words[0].substr(0, at)))) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", words[0], "\": must be a host name or USER@HOST"));
  }
  for (size_t i = 1; i < words.size(); ++i) {
    const size_t equals = words[i].find('=');
    if (equals == std::string::npos) {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", words[i], "\": expected field=value (one host a line)"));
    }
    absl::Status status = SetField(words[i].substr(0, equals), words[i].substr(equals + 1), &host);
    if (!status.ok()) return status;
  }
  return host;
}

}  // namespace

absl::StatusOr<std::vector<Host>> ParseHosts(const std::string& text, const std::string& file) {
  std::vector<Host> hosts;
  std::map<std::string, int> line_of;
  int number = 0;
  for (const std::string& line : std::vector<std::string>(absl::StrSplit(text, '\n'))) {
    ++number;
    const std::vector<std::string> words =
        absl::StrSplit(line.substr(0, line.find('#')), absl::ByAnyChar(" \t\r"), absl::SkipEmpty());
    if (words.empty()) continue;
    auto host = ParseHost(words);
    absl::Status status = host.status();
    if (status.ok() && !line_of.emplace(host->name, number).second) {
      status = absl::InvalidArgumentError(
          absl::StrCat("host ", host->name, " stands in line ", line_of[host->name], " already"));
    }
    if (!status.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat(file, ":", number, ": ", std::string(status.message())));
    }
    hosts.push_back(*std::move(host));
  }
  if (hosts.empty()) return absl::InvalidArgumentError(absl::StrCat(file, ": no host in it"));
  return hosts;
}

absl::StatusOr<std::vector<LabHost>> ReadLabHosts(const std::string& path) {
  std::ifstream in(path);
  if (!in) return absl::NotFoundError(absl::StrCat("cannot read ", path));
  std::vector<LabHost> hosts;
  std::string line;
  for (int number = 1; std::getline(in, line); ++number) {
    std::vector<std::string> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
    if (words.empty()) continue;
    if (words.size() < 3) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ":", number, ": is not NAME ADDRESS COMMAND..."));
    }
    hosts.push_back({words[0], words[1], {words.begin() + 2, words.end()}});
  }
  return hosts;
}

}  // namespace strata::cli

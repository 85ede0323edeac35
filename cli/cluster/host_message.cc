#include "cli/cluster/host_message.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

namespace strata::cli {
namespace {

using nlohmann::json;
using Kind = HostMessage::Kind;

constexpr std::pair<const char*, Kind> kKinds[] = {
    {"alive", Kind::kAlive}, {"start", Kind::kStart}, {"signal", Kind::kSignal},
    {"up", Kind::kUp},       {"ready", Kind::kReady}, {"ended", Kind::kEnded}};

}  // namespace

std::string EncodeHostMessage(const HostMessage& message) {
  json object;
  for (const auto& [name, kind] : kKinds) {
    if (kind == message.kind) object["kind"] = name;
  }
  if (!message.title.empty()) object["title"] = message.title;
  if (!message.text.empty()) object["text"] = message.text;
  if (!message.args.empty()) object["args"] = message.args;
  if (!message.keys.empty()) object["keys"] = message.keys;
  if (message.signal != 0) object["signal"] = message.signal;
  // A log's last line may be anything.
  return object.dump(-1, ' ', /*ensure_ascii=*/true, json::error_handler_t::replace);
}

std::optional<HostMessage> DecodeHostMessage(const std::string& line) {
  const json object = json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object()) return std::nullopt;
  auto text_of = [&object](const char* key) {
    auto found = object.find(key);
    return found != object.end() && found->is_string() ? found->get<std::string>() : "";
  };
  const std::string wanted = text_of("kind");
  const auto* kind = std::find_if(std::begin(kKinds), std::end(kKinds),
                                  [&](const auto& known) { return known.first == wanted; });
  if (kind == std::end(kKinds)) return std::nullopt;
  HostMessage message;
  message.kind = kind->second;
  message.title = text_of("title");
  message.text = text_of("text");
  message.keys = text_of("keys");
  if (auto args = object.find("args"); args != object.end() && args->is_array()) {
    for (const json& arg : *args) {
      if (!arg.is_string()) return std::nullopt;
      message.args.push_back(arg.get<std::string>());
    }
  }
  if (auto signal = object.find("signal"); signal != object.end() && signal->is_number_integer()) {
    message.signal = signal->get<int>();
  }
  return message;
}

}  // namespace strata::cli

#include "common/job/enum_values.h"

#include <set>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "google/protobuf/descriptor.h"
#include "proto/job.pb.h"

namespace strata {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::EnumDescriptor;
using google::protobuf::FieldDescriptor;

// The enum of a field of that name, anywhere below; null: there is none.
const EnumDescriptor* EnumOf(const std::string& field_name, const Descriptor* message,
                             std::set<const Descriptor*>* seen) {
  if (!seen->insert(message).second) return nullptr;
  for (int i = 0; i < message->field_count(); ++i) {
    const FieldDescriptor* field = message->field(i);
    if (field->name() == field_name && field->enum_type() != nullptr) return field->enum_type();
    if (field->message_type() == nullptr) continue;
    const EnumDescriptor* found = EnumOf(field_name, field->message_type(), seen);
    if (found != nullptr) return found;
  }
  return nullptr;
}

}  // namespace

std::string WithEnumValues(const std::string& message) {
  constexpr char kBefore[] = "for field \"";
  const size_t at = message.find(kBefore);
  if (!absl::StartsWith(message, "Unknown enumeration value") || at == std::string::npos) {
    return message;
  }
  const size_t begin = at + sizeof kBefore - 1;
  const std::string name = message.substr(begin, message.find('"', begin) - begin);
  std::set<const Descriptor*> seen;
  const EnumDescriptor* type = EnumOf(name, proto::Job::descriptor(), &seen);
  if (type == nullptr) return message;
  std::vector<std::string> values;
  for (int i = 0; i < type->value_count(); ++i) values.push_back(type->value(i)->name());
  return absl::StrCat(message, " It is one of ", absl::StrJoin(values, ", "), ".");
}

}  // namespace strata

#include "cli/render/printable.h"

#include <vector>

#include "cli/options/terminal.h"
#include "google/protobuf/descriptor.h"

namespace strata::cli {

void EscapeStrings(google::protobuf::Message* message) {
  using google::protobuf::FieldDescriptor;
  const google::protobuf::Reflection& access = *message->GetReflection();
  std::vector<const FieldDescriptor*> fields;
  access.ListFields(*message, &fields);
  for (const FieldDescriptor* field : fields) {
    const bool is_text = field->type() == FieldDescriptor::TYPE_STRING;
    const bool is_message = field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
    const int count = field->is_repeated() ? access.FieldSize(*message, field) : 1;
    for (int i = 0; i < count && (is_text || is_message); ++i) {
      if (is_message) {
        EscapeStrings(field->is_repeated() ? access.MutableRepeatedMessage(message, field, i)
                                           : access.MutableMessage(message, field));
      } else if (field->is_repeated()) {
        access.SetRepeatedString(message, field, i,
                                 Escaped(access.GetRepeatedString(*message, field, i)));
      } else {
        access.SetString(message, field, Escaped(access.GetString(*message, field)));
      }
    }
  }
}

}  // namespace strata::cli

#include "cli/render/table.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cli/options/terminal.h"
#include "google/protobuf/descriptor.h"

namespace strata::cli {

std::string Table(const std::vector<Row>& given) {
  // A cell has one line, whatever others have put into it.
  std::vector<Row> rows = given;
  for (Row& row : rows) {
    for (std::string& cell : row) cell = Escaped(cell);
  }
  std::vector<size_t> widths;
  for (const Row& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const Row& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      absl::StrAppend(&line, row[i], std::string(widths[i] - row[i].size() + 2, ' '));
    }
    line.erase(line.find_last_not_of(' ') + 1);
    absl::StrAppend(&text, line, "\n");
  }
  return text;
}

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

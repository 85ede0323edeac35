#ifndef STRATA_COMMON_JOB_ENUM_VALUES_H_
#define STRATA_COMMON_JOB_ENUM_VALUES_H_

#include <string>

namespace strata {

// What protobuf's parser says of a value that an enum of proto::Job has not got ("Unknown
// enumeration value of "X" for field "f"."), followed by those that it has; any other message as it
// is.
std::string WithEnumValues(const std::string& message);

}  // namespace strata

#endif  // STRATA_COMMON_JOB_ENUM_VALUES_H_

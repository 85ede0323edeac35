#ifndef STRATA_COMMON_CONTROL_SECURITY_TEXT_H_
#define STRATA_COMMON_CONTROL_SECURITY_TEXT_H_

namespace strata::control {

// How ListNodesReply.security begins where the cluster has keys; its name follows.
inline constexpr char kHasKeys[] = "mutual TLS, cluster ";

}  // namespace strata::control

#endif  // STRATA_COMMON_CONTROL_SECURITY_TEXT_H_

// The ids inside a message, for a trace: context, autograd message, RRef and fork.
//
// Nothing is deserialised for it that makes an RRef or a graph: what a call carries stays closed.
#pragma once

#include <torch/csrc/distributed/autograd/rpc_messages/cleanup_autograd_context_req.h>
#include <torch/csrc/distributed/autograd/rpc_messages/propagate_gradients_req.h>
#include <torch/csrc/distributed/autograd/rpc_messages/rref_backward_req.h>
#include <torch/csrc/distributed/rpc/message.h>
#include <torch/csrc/distributed/rpc/python_remote_call.h>
#include <torch/csrc/distributed/rpc/rref_proto.h>
#include <torch/csrc/distributed/rpc/utils.h>

#include "link.h"

namespace squall {

namespace about_parts {

using namespace torch::distributed;

inline void put(Writer& to, int64_t number) {
  to.put<char>('i').put<int64_t>(number);
}

inline void put(Writer& to, const rpc::GloballyUniqueId& id) {
  to.put<char>('g').put<int64_t>(id.createdOn_).put<int64_t>(static_cast<int64_t>(id.localId_));
}

inline void put(Writer& to, const std::string& text) {
  to.put<char>('s').put_bytes(text);
}

inline void decode(Writer& to, const rpc::Message& message) {
  using rpc::MessageType;
  switch (message.type()) {
    case MessageType::FORWARD_AUTOGRAD_REQ:
    case MessageType::FORWARD_AUTOGRAD_RESP: {
      auto payload = message.payload();
      // wrapped type, context, message, sender, device map (rpc_with_autograd.cpp)
      const auto head = rpc::readWrappedPayload(payload, message);
      const auto inner = static_cast<MessageType>(head.at(0).toInt());
      put(to, head.at(1).toInt());
      put(to, head.at(2).toInt());
      to.put<char>('t').put<int64_t>(inner);
      auto tensors = message.tensors();  // a call may name them in its head
      decode(
          to,
          *c10::make_intrusive<rpc::Message>(
              std::move(payload), std::move(tensors), inner, message.id()));
      break;
    }
    case MessageType::BACKWARD_AUTOGRAD_REQ: {
      auto command = autograd::PropagateGradientsReq::fromMessage(message);
      put(to, command->getAutogradMetadata().autogradContextId);
      put(to, command->getAutogradMetadata().autogradMessageId);
      break;
    }
    case MessageType::CLEANUP_AUTOGRAD_CONTEXT_REQ:
      put(to, autograd::CleanupAutogradContextReq::fromMessage(message)->getContextId());
      break;
    case MessageType::RREF_BACKWARD_REQ: {
      auto command = autograd::RRefBackwardReq::fromMessage(message);
      put(to, command->getAutogradContextId());
      put(to, command->getRRefId());
      break;
    }
    case MessageType::PYTHON_REMOTE_CALL: {
      auto command = rpc::PythonRemoteCall::fromMessage(message);
      auto& remote = static_cast<rpc::PythonRemoteCall&>(*command);
      put(to, rpc::RRefId::fromIValue(remote.retRRefId()));
      put(to, rpc::ForkId::fromIValue(remote.retForkId()));
      break;
    }
    case MessageType::SCRIPT_RREF_FETCH_CALL:
      put(to, rpc::ScriptRRefFetchCall::fromMessage(message)->rrefId());
      break;
    case MessageType::PYTHON_RREF_FETCH_CALL:
      put(to, rpc::PythonRRefFetchCall::fromMessage(message)->rrefId());
      break;
    case MessageType::RREF_USER_DELETE: {
      auto command = rpc::RRefUserDelete::fromMessage(message);
      put(to, command->rrefId());
      put(to, command->forkId());
      break;
    }
    case MessageType::RREF_FORK_REQUEST: {
      auto command = rpc::RRefForkRequest::fromMessage(message);
      put(to, command->rrefId());
      put(to, command->forkId());
      break;
    }
    case MessageType::REMOTE_RET: {
      auto command = rpc::RemoteRet::fromMessage(message);
      put(to, command->rrefId());
      put(to, command->forkId());
      break;
    }
    case MessageType::RREF_CHILD_ACCEPT:
      put(to, rpc::RRefChildAccept::fromMessage(message)->forkId());
      break;
    case MessageType::EXCEPTION: {
      const auto& text = message.payload();
      put(to, std::string(text.begin(), text.begin() + std::min<size_t>(text.size(), 200)));
      break;
    }
    default:
      break;
  }
}

} // namespace about_parts

inline std::string about(const torch::distributed::rpc::Message& message) {
  Writer to;
  try {
    about_parts::decode(to, message);
  } catch (const std::exception&) {
    // A trace that tells less must not stop a message.
  }
  return to.bytes;
}

} // namespace squall

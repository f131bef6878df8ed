// The decoder of all families we read, written down one operator after the other.
#ifndef LUNA_CORE_BACKEND_REFERENCE_DECODER_H_
#define LUNA_CORE_BACKEND_REFERENCE_DECODER_H_

#include <span>
#include <vector>

#include "core/backend/kv_pool.h"
#include "core/backend/rope_table.h"
#include "core/batch/batch.h"
#include "core/model/model.h"

namespace luna::backend::reference {

// The tensors of model::LayerWeights as f32; an absent one is empty.
struct Layer {
  std::vector<float> attention_norm, attention_norm_bias;
  std::vector<float> q, k, v, q_bias, k_bias, v_bias, q_norm, k_norm;
  std::vector<float> attention_output, attention_output_bias, attention_post_norm;
  std::vector<float> ffn_norm, ffn_norm_bias;
  std::vector<float> gate, up, up_bias, down, down_bias, ffn_post_norm;
};

// Borrows nothing but the pool given to Forward. One thread.
class Decoder {
 public:
  Decoder(const model::Model& model, int max_batch_tokens);

  // Computes the hidden states of all rows and stores their keys and values. The batch was checked.
  void Forward(const batch::Batch& batch, const KvPool& pool);
  // The logits of one row of the last Forward.
  void Logits(int row, std::span<float> logits);  // [vocab_size]

  int64_t weights_bytes() const;

 private:
  struct Scratch {
    std::vector<float> hidden;             // [max_batch_tokens, hidden]
    std::vector<float> normed, projected;  // [hidden]
    std::vector<float> q;                  // [max_batch_tokens, q_size]
    std::vector<float> k, v;               // [kv_size]
    std::vector<float> attended;           // [q_size]
    std::vector<float> gate, up;           // [intermediate]
    std::vector<float> scores;             // [context]
  };

  std::span<float> hidden(int row);
  void Embed(const batch::Batch& batch);
  void Norm(std::span<const float> x, std::span<const float> weight, std::span<const float> bias,
            std::span<float> out) const;
  // Norm, QKV, QK norm, RoPE; the keys and values go into their blocks.
  void ProjectAndStore(const batch::Batch& batch, int layer, int sequence, const KvPool& pool);
  void Attention(const batch::Batch& batch, int layer, int sequence, const KvPool& pool);
  void FeedForward(int layer, int row);
  // hidden(row) += post_norm(projected), or projected itself where the layer has no post norm.
  void AddResidual(int row, std::span<const float> post_norm);

  model::ModelConfig config_;
  std::vector<float> token_embedding_;     // [vocab, hidden]; also the head where it is tied
  std::vector<float> position_embedding_;  // [context, hidden] or empty
  std::vector<float> final_norm_, final_norm_bias_;  // [hidden]
  std::vector<float> head_;                          // [vocab, hidden]; empty where it is tied
  std::vector<Layer> layers_;
  RopeTable rope_;
  Scratch scratch_;
};

}  // namespace luna::backend::reference

#endif  // LUNA_CORE_BACKEND_REFERENCE_DECODER_H_

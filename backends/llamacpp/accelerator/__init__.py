"""Own kernels for the CPU as a backend of ggml: several tokens checked for little more than the price of one.

The C++ beside this file takes the products with block-quantised weights, attention, and the cheap operations between them, so
that a graph stays in one piece; what it does not know goes to ggml's CPU backend. Every row of a batch is computed in the same
way whatever rows are beside it: a block of tokens has the logits that single steps have, to the bit.
"""

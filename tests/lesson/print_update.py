"""Compute the README's update by hand, with the script's loss.

One sample: π(right) = 0.6, the action was right, V(s) = -0.30, V(s_) = -0.10, five zero rewards.
"""
import argparse
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
import a3c_cartpole as a3c

tf = a3c.tf


def main():
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    biases = tf.Variable([0.0, 0.0])  # of the actor's two outputs, so they move the logits as such
    logits = tf.constant([[0.0, np.log(0.6 / 0.4)]], tf.float32) + biases
    v = tf.constant([-0.30])
    target = a3c.GAMMA ** 5 * tf.constant([-0.10])  # five rewards of 0, then V(s_)
    actor, critic, entropy = a3c.LocalBrain.build_loss(  # it needs no network, so no brain
        None, tf.nn.softmax(logits), v, tf.constant([1]), target)
    loss = actor + critic + entropy
    dv, dlogits = tf.gradients(loss, [v, biases])
    optimizer = a3c.ParameterServer.build_optimizer(None)
    update = optimizer.apply_gradients([(dlogits, biases)])
    average = optimizer.get_slot(biases, "rms")
    rows = [("target", "0 + γ⁵·V(s_)", target),
            ("A", "target − V(s)", target - v),
            ("actor", "−log 0.6 · A", actor),
            ("critic", "0.5·A²", critic),
            ("entropy", "0.01·(0.6·log 0.6 + 0.4·log 0.4)", entropy),
            ("loss", "actor + critic + entropy", loss),
            ("dloss/dV(s)", "−A", dv),
            ("dloss/dlogit(right)", "−A·0.4 + 0.01·0.6·0.4·log(0.6/0.4)", dlogits[1:]),
            ("dloss/dlogit(left)", "the same, with the opposite sign", dlogits[:1])]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for name, formula, value in rows:
            print(f"{name:20} {formula:35} {session.run(value)[0]:8.4f}")
        print()
        squares = session.run(dlogits) ** 2
        for name, first in (("first move (average from 1)", [1, 1]),
                            ("later move (average = gradient²)", squares)):
            session.run([biases.initializer, average.assign(first)])
            session.run(update)
            print(f"{name:33} {session.run(biases)[1]:8.4f}")


if __name__ == "__main__":
    main()

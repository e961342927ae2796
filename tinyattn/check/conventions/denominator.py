"""Linear attention with a small number added to its denominator, as in some code, but in no paper."""

from typing import Any

import numpy as np

from ..cases import copied
from ..common import tolerance, widened
from ..spec import Spec
from ..specs.efficient_attention import linear_attention_seen as seen
from ..subject import Subject
from ..switch import Case, Switch
from .convention import OtherSpec, cases_of, convention, error, mends, oracle, other_spec

EPS = (1e-6, 1e-5, 1e-8, 1e-10)


def _phi(x: Any) -> Any:
    return np.where(x > 0, x + 1, np.exp(np.minimum(x, 0)))


def with_eps(spec: Spec, eps: float) -> Spec:
    """The spec of linear attention with `eps` added to the denominator."""

    def weights(q: Any, k: Any, causal: bool, keys: Any) -> tuple[Any, Any]:
        p = _phi(q) @ np.swapaxes(_phi(k), -1, -2) * seen({"q": q, "k": k, "causal": causal, "keys": keys})
        return p, np.sum(p, axis=-1, keepdims=True) + q.dtype.type(eps)

    def forward(q: Any, k: Any, v: Any, causal: bool = True, keys: Any = None, form: str = "") -> Any:
        """out_i = Σ_j p_ij v_j / (Σ_j p_ij + eps), p_ij = φ(q_i)·φ(k_j) where i may see j, φ(x) = ELU(x) + 1."""
        p, size = weights(q, k, causal, keys)
        return p @ v / size

    def backward(dout: Any, q: Any, k: Any, v: Any, causal: bool = True, keys: Any = None, form: str = "") -> Any:
        """dp_ij = dout_i · (v_j - out_i) / (Σ_j p_ij + eps), and φ' = min(φ, 1)."""
        p, size = weights(q, k, causal, keys)
        along = np.sum(dout * (p @ v / size), axis=-1, keepdims=True)
        dp = np.where(p > 0, (dout @ np.swapaxes(v, -1, -2) - along) / size, 0)
        dq, dk = dp @ _phi(k), np.swapaxes(dp, -1, -2) @ _phi(q)
        return dq * np.minimum(_phi(q), 1), dk * np.minimum(_phi(k), 1), np.swapaxes(p, -1, -2) @ (dout / size)

    kept = [prop for prop in spec.properties if prop.name != "constant_values"]
    return other_spec(spec, forward, backward, properties=kept)


@convention("denominator", "a small number may be added to the denominator")
def _denominator(op: Subject) -> Switch | None:
    cases = [op.fit(widened(case)) for case in cases_of(op, 8)]

    def right(case: Case) -> bool:
        return error(op.outputs(**copied(case))[0], oracle(op, case)) <= tolerance(op.spec, case)

    switches = (OtherSpec(f"{eps:g} is added to the denominator", with_eps(op.spec, eps)) for eps in EPS)
    return next((switch for switch in switches if mends(op, switch, right, cases)), None)

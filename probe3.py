"""ALTER detaches a reader, with all kinds of turns."""
from tests.dsms.runtime.test_shared_subplans import *
import random, sys
from dataclasses import replace as rep
TEXTS=[[GROUPS, f"SELECT k, 6 / (n - 2) AS q, m FROM ({GROUPS})"],
 ["SELECT k, COUNT(*) AS n FROM (SELECT k, 6 / v AS q FROM A) GROUP BY k","SELECT n, COUNT(*) AS c FROM (SELECT k, COUNT(*) AS n FROM (SELECT k, 6 / v AS q FROM A) GROUP BY k) GROUP BY n"],
 [JOIN, f"SELECT k, 6/w AS n FROM ({JOIN})"]]
bad=0
for seed in range(60):
    c=random.Random(seed)
    t=c.choice(TEXTS)
    logs=[[(c.choice("ab"),c.randrange(3),at//2,None) for at in range(8)]]
    w=run_over(logs,[placed_at([0,0],t,1)])
    before=placed_at([0,1],t,2)
    after,_=apply_all(c.choice(["ALTER QUERY q1 SET (fragments = 1)"]),before,FakeEnvironment({},2))
    assert not after.subplans()
    turns=[(c.randrange(2),c.randrange(1,4),c.random()<.3) for _ in range(14)]
    p=run_over(logs,[before,after],2,turns)
    a,b=Counter(map(repr,w.dead)),Counter(map(repr,p.dead))
    if results(w)!=results(p) or a!=b:
        bad+=1; print(seed, TEXTS.index(t), results(w)==results(p), "lost",sum((a-b).values()),"extra",sum((b-a).values()))
print("bad",bad)

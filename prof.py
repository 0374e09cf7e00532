import sys; sys.argv=["x","10000","100"]
src=open("proto2.py").read().replace("for C in (.1,1,10):","for C in (1,):").replace('("bag","instance")','("bag",)')
import cProfile,pstats
p=cProfile.Profile(); p.enable(); exec(src); p.disable(); pstats.Stats(p).sort_stats("tottime").print_stats(14)

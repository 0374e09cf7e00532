import sys, time, numpy as np
sys.path.insert(0,"/work/t-scale")
from milearn.datasets import make_bags
from milearn._solvers.svm.mi_svm_primal import *
from milearn._solvers.common.options import SolverOptions
from milearn._solvers.common.passes import ArraySource
from sklearn.svm import LinearSVC
n=int(sys.argv[1]); d=int(sys.argv[2])
X,y=make_bags(n,d,bag_size=(10,30),flip_y=.05,random_state=0) if n!=1000 or d!=10 else make_bags(1000,random_state=0)
y=np.asarray(y); print(X.shape,X.n_instances)
s=np.where(y==1,1.,-1.)
t=time.process_time(); m=LinearSVC().fit(X.instances,np.repeat(y,X.sizes)); tl=time.process_time()-t; print("LinearSVC",tl)
for C in (.1,1,10):
  for slack in ("bag","instance"):
    t=time.process_time()
    r=solve_mi_svm_primal(ArraySource(X.instances,X.offsets),s,np.full(n,C),slack,"auto",SolverOptions(1e-6,100),1e-3)
    e=time.process_time()-t
    print(C,slack,"%.2fs ratio %.2f"%(e,e/tl),r.objective,"gap %.1e"%(r.dual_gap/r.objective),r.stopped,"it",r.n_iter,"passes",r.n_passes)

import sys, numpy as np
sys.path.insert(0,"/work/t-scale")
from milearn.datasets import make_bags
from milearn._solvers.svm import mi_svm_primal as mp
from milearn._solvers.svm.mi_svm_primal import *
from milearn._solvers.common.passes import ArraySource
from milearn._solvers.common.options import SolverOptions
X,y=make_bags(1000,100,bag_size=(10,30),flip_y=.05,random_state=0)
s=np.where(np.asarray(y)==1,1.,-1.)
import milearn._solvers.svm.group_newton as gn
old=mp.solve_groups
def traced(problem,start,gap_tol,smoothing=None):
    r=old(problem,start,gap_tol=gap_tol,smoothing=smoothing)
    print("   master rows",problem.Z.shape,"obj %.4f bound %.4f gap %.1e steps %d h %.1e"%(r.objective,r.lower_bound,(r.objective-r.lower_bound)/abs(r.objective),r.n_steps,r.smoothing)); return r
mp.solve_groups=traced
oldp=mp._passed
def tp(*a):
    r=oldp(*a); print("pass: neg loss %.4f W %s"%(r.negative_loss,r.rows.shape)); return r
mp._passed=tp
mp._MAX_PASSES=20
r=solve_mi_svm_primal(ArraySource(X.instances,X.offsets),s,np.full(len(s),1.),sys.argv[1],sys.argv[2],SolverOptions(1e-6,100),1e-3)
print(r.objective,r.dual_gap/r.objective,r.stopped,r.n_iter,r.n_passes,r.history)

"""Which family, a file here, registers which operator types: it is imported when a model has one of them.

Written by scripts/index_layers.py; a test compares it with what the families register.
"""

FAMILIES: dict[str, list[str]] = {}  # family -> operator types

_TEXT = """\
activation: F.celu F.elu F.gelu F.glu F.hardshrink F.hardsigmoid F.hardswish F.hardtanh F.leaky_relu F.logsigmoid F.mish
    F.prelu F.relu F.relu6 F.rrelu F.selu F.sigmoid F.silu F.softplus F.softshrink F.softsign F.tanh F.tanhshrink
    F.threshold nn.CELU nn.ELU nn.GELU nn.GLU nn.Hardshrink nn.Hardsigmoid nn.Hardswish nn.Hardtanh nn.LeakyReLU
    nn.LogSigmoid nn.Mish nn.PReLU nn.RReLU nn.ReLU nn.ReLU6 nn.SELU nn.SiLU nn.Sigmoid nn.Softplus nn.Softshrink
    nn.Softsign nn.Tanh nn.Tanhshrink nn.Threshold
adaptive_pooling: F.adaptive_avg_pool1d F.adaptive_avg_pool2d F.adaptive_avg_pool3d F.adaptive_max_pool1d
    F.adaptive_max_pool2d F.adaptive_max_pool3d aten::adaptive_avg_pool1d aten::adaptive_avg_pool2d
    aten::adaptive_avg_pool3d aten::adaptive_max_pool1d aten::adaptive_max_pool2d aten::adaptive_max_pool3d
    nn.AdaptiveAvgPool1d nn.AdaptiveAvgPool2d nn.AdaptiveAvgPool3d nn.AdaptiveMaxPool1d nn.AdaptiveMaxPool2d
    nn.AdaptiveMaxPool3d
attention: F.scaled_dot_product_attention
blend: aten::addcdiv aten::addcmul aten::lerp torch.addcdiv torch.addcmul torch.lerp
casting: Tensor.alias Tensor.clone Tensor.contiguous Tensor.detach Tensor.to Tensor.type_as aten::alias aten::clone
    aten::complex aten::contiguous aten::detach aten::imag aten::real aten::to aten::type_as aten::view_as_complex
    aten::view_as_real nn.Identity torch.clone torch.complex torch.imag torch.real torch.view_as_complex
    torch.view_as_real
choice: aten::clamp aten::clamp_max aten::clamp_min aten::fmax aten::fmin aten::max aten::maximum aten::min
    aten::minimum aten::nan_to_num aten::nonzero aten::nonzero_numpy aten::where torch.clamp torch.clamp_max
    torch.clamp_min torch.clip torch.fmax torch.fmin torch.maximum torch.minimum torch.nan_to_num torch.nonzero
    torch.where
comparison: aten::eq aten::ge aten::gt aten::isclose aten::isfinite aten::isinf aten::isnan aten::le aten::logical_and
    aten::logical_not aten::logical_or aten::logical_xor aten::lt aten::ne torch.eq torch.ge torch.gt torch.isclose
    torch.isfinite torch.isinf torch.isnan torch.le torch.logical_and torch.logical_not torch.logical_or
    torch.logical_xor torch.lt torch.ne
convolution: F.conv1d F.conv2d F.conv3d F.conv_transpose1d F.conv_transpose2d F.conv_transpose3d aten::conv1d
    aten::conv2d aten::conv3d aten::conv_transpose1d aten::conv_transpose2d aten::conv_transpose3d nn.Conv1d nn.Conv2d
    nn.Conv3d nn.ConvTranspose1d nn.ConvTranspose2d nn.ConvTranspose3d
creation: Tensor.fill Tensor.new_empty Tensor.new_full Tensor.new_ones Tensor.new_zeros aten::arange aten::empty
    aten::empty_like aten::fill aten::full aten::full_like aten::new_empty aten::new_full aten::new_ones aten::new_zeros
    aten::normal aten::ones aten::ones_like aten::rand aten::rand_like aten::randn aten::randn_like aten::zero
    aten::zeros aten::zeros_like torch.arange torch.empty torch.empty_like torch.full torch.full_like torch.normal
    torch.ones torch.ones_like torch.rand torch.rand_like torch.randn torch.randn_like torch.zeros torch.zeros_like
detection: pnnx.custom_op.torchvision.deform_conv2d pnnx.custom_op.torchvision.nms pnnx.custom_op.torchvision.roi_align
    torchvision.ops.DeformConv2d torchvision.ops.RoIAlign
distance: F.cosine_similarity F.normalize F.pairwise_distance aten::cosine_similarity nn.CosineSimilarity
    nn.PairwiseDistance
dropout: F.alpha_dropout F.dropout F.dropout1d F.dropout2d F.dropout3d F.dropoutnd F.feature_alpha_dropout
    nn.AlphaDropout nn.Dropout nn.Dropout1d nn.Dropout2d nn.Dropout3d nn.FeatureAlphaDropout
einsum: torch.einsum
extremum: aten::aminmax torch.aminmax torch.argmax torch.argmin torch.max torch.min
fold: F.fold F.unfold nn.Fold nn.Unfold
gathering: F.embedding Tensor.masked_fill aten::embedding aten::gather aten::index_add aten::index_select
    aten::masked_fill aten::masked_select aten::one_hot aten::scatter aten::scatter_add aten::take nn.Embedding
    torch.gather torch.index_select torch.masked_select torch.scatter torch.scatter_add
indexing: Tensor.index Tensor.index_put aten::index aten::index_put
joining: aten::chunk aten::meshgrid aten::split aten::split_with_sizes aten::tensor_split aten::unbind torch.cat
    torch.chunk torch.concat torch.split torch.stack torch.tensor_split torch.unbind
linear: F.linear aten::addmm aten::addmv aten::baddbmm aten::bmm aten::linear aten::matmul aten::mm aten::mv nn.Linear
    torch.addmm torch.addmv torch.baddbmm torch.bmm torch.matmul torch.mm torch.mv
multihead_attention: nn.MultiheadAttention
normalization: F.batch_norm F.group_norm F.instance_norm F.layer_norm F.local_response_norm F.rms_norm
    aten::instance_norm nn.BatchNorm1d nn.BatchNorm2d nn.BatchNorm3d nn.GroupNorm nn.InstanceNorm1d nn.InstanceNorm2d
    nn.InstanceNorm3d nn.LayerNorm nn.LocalResponseNorm nn.RMSNorm
ordering: aten::argsort aten::kthvalue aten::median aten::sort torch.argsort torch.kthvalue torch.median torch.sort
    torch.topk
padding: F.pad aten::constant_pad_nd aten::pad aten::reflection_pad1d aten::reflection_pad2d aten::reflection_pad3d
    aten::replication_pad1d aten::replication_pad2d aten::replication_pad3d nn.CircularPad1d nn.CircularPad2d
    nn.CircularPad3d nn.ConstantPad1d nn.ConstantPad2d nn.ConstantPad3d nn.ReflectionPad1d nn.ReflectionPad2d
    nn.ReflectionPad3d nn.ReplicationPad1d nn.ReplicationPad2d nn.ReplicationPad3d nn.ZeroPad1d nn.ZeroPad2d
    nn.ZeroPad3d
pixel: F.channel_shuffle F.pixel_shuffle F.pixel_unshuffle aten::channel_shuffle aten::pixel_shuffle
    aten::pixel_unshuffle nn.ChannelShuffle nn.PixelShuffle nn.PixelUnshuffle torch.channel_shuffle
pointwise: aten::__and__ aten::__lshift__ aten::__or__ aten::__rshift__ aten::__xor__ aten::abs aten::absolute
    aten::acos aten::acosh aten::add aten::arccos aten::arccosh aten::arcsin aten::arcsinh aten::arctan aten::arctan2
    aten::arctanh aten::asin aten::asinh aten::atan aten::atan2 aten::atanh aten::bitwise_and aten::bitwise_left_shift
    aten::bitwise_not aten::bitwise_or aten::bitwise_right_shift aten::bitwise_xor aten::ceil aten::cos aten::cosh
    aten::deg2rad aten::div aten::divide aten::erf aten::exp aten::exp2 aten::expm1 aten::fix aten::floor
    aten::floor_divide aten::floordiv aten::fmod aten::frac aten::lgamma aten::log aten::log10 aten::log1p aten::log2
    aten::logaddexp aten::mul aten::multiply aten::neg aten::negative aten::positive aten::pow aten::rad2deg
    aten::reciprocal aten::remainder aten::round aten::rsqrt aten::rsub aten::sgn aten::sign aten::signbit aten::sin
    aten::sinc aten::sinh aten::sqrt aten::square aten::sub aten::subtract aten::tan aten::tanh aten::true_divide
    aten::trunc torch.abs torch.absolute torch.acos torch.acosh torch.add torch.arccos torch.arccosh torch.arcsin
    torch.arcsinh torch.arctan torch.arctan2 torch.arctanh torch.asin torch.asinh torch.atan torch.atan2 torch.atanh
    torch.bitwise_and torch.bitwise_left_shift torch.bitwise_not torch.bitwise_or torch.bitwise_right_shift
    torch.bitwise_xor torch.ceil torch.cos torch.cosh torch.deg2rad torch.div torch.divide torch.erf torch.exp
    torch.exp2 torch.expm1 torch.fix torch.floor torch.floor_divide torch.fmod torch.frac torch.lgamma torch.log
    torch.log10 torch.log1p torch.log2 torch.logaddexp torch.mul torch.multiply torch.neg torch.negative torch.positive
    torch.pow torch.rad2deg torch.reciprocal torch.remainder torch.round torch.rsqrt torch.rsub torch.sgn torch.sign
    torch.signbit torch.sin torch.sinc torch.sinh torch.sqrt torch.square torch.sub torch.subtract torch.tan torch.tanh
    torch.true_divide torch.trunc
pooling: F.avg_pool1d F.avg_pool2d F.avg_pool3d F.lp_pool1d F.lp_pool2d F.lp_pool3d F.max_pool1d F.max_pool2d
    F.max_pool3d aten::avg_pool1d aten::avg_pool2d aten::avg_pool3d aten::max_pool1d aten::max_pool1d_with_indices
    aten::max_pool2d aten::max_pool2d_with_indices aten::max_pool3d aten::max_pool3d_with_indices nn.AvgPool1d
    nn.AvgPool2d nn.AvgPool3d nn.LPPool1d nn.LPPool2d nn.LPPool3d nn.MaxPool1d nn.MaxPool2d nn.MaxPool3d
products: F.bilinear aten::bilinear aten::dot aten::ger aten::inner aten::kron aten::outer aten::tensordot aten::vdot
    nn.Bilinear torch.dot torch.inner torch.kron torch.outer torch.vdot
rearranging: Tensor.repeat aten::diag aten::diagonal aten::flip aten::repeat aten::repeat_interleave aten::roll
    aten::tile aten::tril aten::triu torch.diag torch.flip torch.repeat_interleave torch.roll torch.tile torch.tril
    torch.triu
recurrent: nn.GRU nn.LSTM nn.RNN
reduction: aten::all aten::any aten::count_nonzero aten::nanmean aten::nansum aten::prod torch.all torch.amax torch.amin
    torch.any torch.count_nonzero torch.logsumexp torch.mean torch.nanmean torch.nansum torch.prod torch.sum
resize: F.interpolate F.upsample F.upsample_bilinear F.upsample_nearest aten::_upsample_nearest_exact1d
    aten::_upsample_nearest_exact2d aten::_upsample_nearest_exact3d aten::upsample_bicubic2d aten::upsample_bilinear2d
    aten::upsample_linear1d aten::upsample_nearest1d aten::upsample_nearest2d aten::upsample_nearest3d
    aten::upsample_trilinear3d nn.Upsample nn.UpsamplingBilinear2d nn.UpsamplingNearest2d
sampling: F.affine_grid F.grid_sample
scan: aten::cummax aten::cummin aten::logcumsumexp torch.cummax torch.cummin torch.cumprod torch.cumsum
    torch.logcumsumexp
shape: Tensor.expand Tensor.expand_as Tensor.permute Tensor.reshape Tensor.reshape_as Tensor.unflatten Tensor.view
    Tensor.view_as aten::as_strided aten::broadcast_to aten::expand aten::expand_as aten::flatten aten::movedim
    aten::permute aten::reshape aten::reshape_as aten::squeeze aten::t aten::transpose aten::unflatten aten::unsqueeze
    aten::view aten::view_as nn.Flatten torch.as_strided torch.broadcast_to torch.flatten torch.movedim torch.permute
    torch.reshape torch.squeeze torch.t torch.transpose torch.unflatten torch.unsqueeze
slicing: Tensor.copy Tensor.select Tensor.slice Tensor.slice_copy aten::copy aten::narrow aten::select
    aten::select_scatter aten::slice aten::slice_scatter torch.narrow torch.select_scatter torch.slice_scatter
softmax: F.log_softmax F.softmax F.softmin nn.LogSoftmax nn.Softmax nn.Softmax2d nn.Softmin torch.log_softmax
    torch.softmax
spectral: aten::fft_fft aten::fft_fft2 aten::fft_fftn aten::fft_fftshift aten::fft_hfft aten::fft_hfft2 aten::fft_hfftn
    aten::fft_ifft aten::fft_ifft2 aten::fft_ifftn aten::fft_ifftshift aten::fft_ihfft aten::fft_ihfft2 aten::fft_ihfftn
    aten::fft_irfft aten::fft_irfft2 aten::fft_irfftn aten::fft_rfft aten::fft_rfft2 aten::fft_rfftn torch.fft.fft
    torch.fft.fft2 torch.fft.fftn torch.fft.fftshift torch.fft.hfft torch.fft.hfft2 torch.fft.hfftn torch.fft.ifft
    torch.fft.ifft2 torch.fft.ifftn torch.fft.ifftshift torch.fft.ihfft torch.fft.ihfft2 torch.fft.ihfftn
    torch.fft.irfft torch.fft.irfft2 torch.fft.irfftn torch.fft.rfft torch.fft.rfft2 torch.fft.rfftn
spectrogram: torch.istft torch.stft torchaudio.functional.inverse_spectrogram torchaudio.functional.spectrogram
structural: Tensor.item Tensor.size aten::Bool aten::Float aten::FloatImplicit aten::Int aten::IntImplicit
    aten::ScalarImplicit aten::__getitem__ aten::item aten::len aten::numel aten::size pnnx.Attribute pnnx.Expression
    pnnx.SliceIndexes prim::Constant prim::DictConstruct prim::ListConstruct prim::ListUnpack prim::NumToTensor
    prim::TupleConstruct prim::TupleUnpack
unpooling: F.max_unpool1d F.max_unpool2d F.max_unpool3d aten::max_unpool2d aten::max_unpool3d nn.MaxUnpool1d
    nn.MaxUnpool2d nn.MaxUnpool3d
variance: aten::std aten::std_mean aten::var aten::var_mean torch.std torch.std_mean torch.var torch.var_mean
vector: aten::cross aten::dist aten::linalg_cross aten::linalg_matrix_norm aten::linalg_norm torch.cross torch.dist
    torch.linalg.cross torch.linalg.matrix_norm torch.linalg.norm torch.linalg.vector_norm torch.norm
yolo: models.yolo.Detect yolov5.models.yolo.Detect
"""

for _paragraph in _TEXT.replace("\n    ", " ").splitlines():
    _family, _, _types = _paragraph.partition(": ")
    FAMILIES[_family] = _types.split()
